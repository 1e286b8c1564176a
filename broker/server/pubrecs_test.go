package server

import (
	"context"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/ingest"
	"maestrohub.io/uns/broker/listener"
	"maestrohub.io/uns/broker/metrics"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/broker/session"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/memory"
)

// heldBack makes its writes once it is let.
type heldBack struct {
	state.Bucket
	let chan struct{}
}

func (h *heldBack) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	<-h.let
	return h.Bucket.Update(ctx, key, value, revision)
}

// A PUBREC waits for the record of its identifier. One that refuses has nothing to
// record, and does not go before it; nor does what closes an MQTT 3 connection, nor a PUBREL
// of nothing before one that waits for the cursor.
func TestWhatHasNothingToRecordLeavesInItsTurn(t *testing.T) {
	all, released := []uint16{1, 2, 3}, []uint16{4, 5}
	for name, test := range map[string]struct {
		version           mqtt.Version
		refusal           ingest.Refusal
		pubrecs, released []uint16
	}{
		"refused for good":               {mqtt.V5, ingest.NotGranted, all, released},
		"refused for the moment":         {mqtt.V5, ingest.LogTimeout, all, released},
		"MQTT 3, refused for good":       {mqtt.V311, ingest.NotGranted, all, released},
		"MQTT 3, refused for the moment": {mqtt.V311, ingest.LogTimeout, []uint16{1}, nil}, // it is closed
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, err := memory.Open(memory.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer store.Close()
				ours, theirs := net.Pipe()
				s := &Server{metrics: metrics.New(), ctx: t.Context(), started: time.Now()}
				s.limits.MaxClientWritesPending = 1000
				s.shared = &shared{Cluster: Cluster{Member: alone{}}, server: s}
				press := &client{id: "press"}
				c := &connection{server: s, client: press, lock: &press.lock, nc: &listener.Conn{Conn: theirs}, version: test.version,
					session: &session.Session{Window: session.Window{Limit: 10}}, ws: &workspace{server: s}, settled: make(chan struct{})}
				c.out = output{nc: theirs, metrics: s.metrics}
				c.held = &holding{owner: cluster.Owner{Connection: cluster.NewID()}, record: &cluster.Session{ID: cluster.NewID()}}
				let := make(chan struct{})
				for bucket, r := range map[string]*recorder{state.SessionQoS2: &c.held.received, state.SessionCursor: &c.held.cursor} {
					b, err := store.Bucket(t.Context(), bucket)
					if err != nil {
						t.Fatal(err)
					}
					*r = recorder{bucket: &heldBack{b, let}, encode: c.encodeReceived}
					if bucket == state.SessionCursor {
						r.encode = c.encodeCursor
					}
					if r.revision, err = b.Create(t.Context(), press.id, nil); err != nil {
						t.Fatal(err)
					}
				}
				came := map[mqtt.PacketType][]uint16{}
				go func() {
					buf := make([]byte, 1024)
					for {
						n, err := ours.Read(buf)
						if err != nil {
							return
						}
						for rest := buf[:n]; len(rest) > 0; {
							h, _, _ := mqtt.ParseHeader(rest)
							came[h.Type] = append(came[h.Type], uint16(rest[h.Size])<<8|uint16(rest[h.Size+1]))
							rest = rest[h.Size+h.Remaining:]
						}
					}
				}()
				for id := range uint16(3) {
					c.acks.push(pending{id: id + 1, qos: 2})
				}
				c.Complete(0, ingest.Outcome{})
				c.Complete(1, ingest.Outcome{Refusal: test.refusal})
				c.Complete(2, ingest.Outcome{})
				c.Flush()
				entry := &session.Entry{PacketID: 4, QoS: 2, Source: session.FromLog}
				c.lock.Lock()
				c.session.Window.Restore(entry)
				c.lock.Unlock()
				for _, id := range []uint16{4, 5} {
					ack := mqtt.AppendAck(nil, test.version, mqtt.PUBREC, id, mqtt.Success)
					h, _, _ := mqtt.ParseHeader(ack)
					if err := c.onAck(h, ack[h.Size:]); err != nil {
						t.Fatal(err)
					}
				}
				if err := c.afterBatch(); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if len(came) > 0 {
					t.Errorf("%v left before anything was recorded", came)
				}
				close(let)
				synctest.Wait()
				if got := came[mqtt.PUBREC]; !slices.Equal(got, test.pubrecs) {
					t.Errorf("the PUBRECs of %d left, want %d", got, test.pubrecs)
				}
				if got := came[mqtt.PUBREL]; test.released != nil && !slices.Equal(got, test.released) {
					t.Errorf("the PUBRELs of %d left, want %d", got, test.released)
				}
				_ = ours.Close()
				_ = theirs.Close()
				synctest.Wait()
			})
		})
	}
}
