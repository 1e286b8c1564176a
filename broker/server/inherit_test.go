package server

import (
	"bytes"
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"maestrohub.io/uns/broker/metrics"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/memory"
	"maestrohub.io/uns/broker/value"
)

// laggingLog is a log whose reads show for a while what was there before.
type laggingLog struct {
	state.Log
	until time.Time
	reads int
}

func (l *laggingLog) Read(ctx context.Context, from uint64, most int, dst []state.Entry) ([]state.Entry, error) {
	l.reads++
	if time.Now().Before(l.until) {
		return dst, nil
	}
	return l.Log.Read(ctx, from, most, dst)
}

// What an ended member of a shared subscription leaves is read up to the last record it may
// have been chosen for, however far reads lag; a log that was made anew meanwhile and is
// shorter than that is read no further.
func TestWhatAMemberLeavesIsReadToItsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		records int
		last    uint64
		lag     time.Duration
		most    int // reads
		dropped int // nobody is left to take them
	}{
		"reads lag":                   {records: 3, last: 3, lag: 10 * time.Second, most: 60, dropped: 3},
		"the log was made anew":       {records: 1, last: 500, most: 60, dropped: 1},
		"the log was made anew, lags": {records: 1, last: 500, lag: 10 * time.Second, most: 60, dropped: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, err := memory.Open(memory.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer store.Close()
				log, err := store.Log(t.Context(), "plant")
				if err != nil {
					t.Fatal(err)
				}
				for range c.records {
					v := value.Value{Name: "mHv1.0/plant/line/1", Workspace: "plant", Topic: "line/1", QoS: 1, Shares: []value.Share{{Key: "k", Session: "gone"}}}
					if _, err := log.Append(t.Context(), [][]byte{v.AppendRecord(nil)}); err != nil {
						t.Fatal(err)
					}
				}
				var said bytes.Buffer
				ctx, cancel := context.WithCancel(t.Context())
				s := &Server{ctx: ctx, metrics: metrics.New(), agenda: newAgenda(), log: slog.New(slog.NewTextHandler(&said, nil))}
				w := &workspace{server: s, slug: "plant", cache: make(map[string]*matches), turns: make(map[string]*atomic.Uint64)}
				lagging := &laggingLog{Log: log, until: time.Now().Add(c.lag)}
				w.feed.Store(&feed{log: lagging})
				w.inheritFrom(inheritance{client: "gone", keys: []string{"k"}, from: 1, last: c.last})
				time.Sleep(time.Hour)
				synctest.Wait()
				if lagging.reads > c.most || said.Len() > 0 {
					t.Errorf("%d reads, want %d at most; logged %s", lagging.reads, c.most, said.String())
				}
				var dropped dto.Metric
				if err := s.metrics.MessagesDropped.Write(&dropped); err != nil {
					t.Fatal(err)
				}
				if got := int(dropped.GetCounter().GetValue()); got != c.dropped {
					t.Errorf("%d messages passed on, want %d", got, c.dropped)
				}
				cancel()
				s.tasks.Wait()
			})
		})
	}
}
