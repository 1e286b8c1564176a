package server

import (
	"context"
	"sync/atomic"
	"testing"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/value"
)

// sparseLog gives batches of entries whose sequences have gaps, as those of a log in NATS
// do, and counts how often it is asked for its bounds, which it does not tell before it is
// let.
type sparseLog struct {
	state.Log
	record   []byte
	batches  []int // entries of each still to come
	message  uint64
	asked    atomic.Int32
	says     chan struct{}
	answered chan struct{}
}

func (l *sparseLog) Tail(uint64) state.Tail { return (*sparseTail)(l) }

func (l *sparseLog) Bounds(ctx context.Context) (first, last uint64, err error) {
	l.asked.Add(1)
	<-l.says
	defer close(l.answered)
	return l.message * 1024, l.message * 1024, nil
}

type sparseTail sparseLog

func (t *sparseTail) Next(context.Context) (entries []state.Entry, err error) {
	if len(t.batches) == 0 {
		return nil, state.ErrClosed
	}
	t.message++
	for i := range t.batches[0] {
		entries = append(entries, state.Entry{Sequence: t.message*1024 + uint64(i), Data: t.record})
	}
	t.batches = t.batches[1:]
	return entries, nil
}

func (t *sparseTail) Stop() {}

// What a log has dropped is looked for as entries go by, not as their sequences do, which
// have gaps; and nothing that comes meanwhile waits for a store that is slow to say it.
func TestWhatALogDroppedIsLookedForNowAndThen(t *testing.T) {
	r := newRig(t)
	w := r.server.workspace("plant")
	v := value.Value{Name: "mHv1.0/plant/x"}
	log := &sparseLog{record: v.AppendRecord(nil), says: make(chan struct{}), answered: make(chan struct{})}
	f := &feed{log: log, directory: newDirectory(0)}
	for range 4 * trimEvery / 1024 {
		log.batches = append(log.batches, 1)
	}
	w.follow(f)
	if n := log.asked.Load(); n != 0 {
		t.Errorf("asked for its bounds %d times after %d entries, want once every %d", n, len(f.directory.entries), trimEvery)
	}
	for range trimEvery/1000 + 10 {
		log.batches = append(log.batches, 1000)
	}
	w.follow(f) // ends, though the log does not say
	if len(f.directory.entries) < trimEvery {
		t.Errorf("%d entries are listed", len(f.directory.entries))
	}
	close(log.says)
	<-log.answered
	r.server.cancel()
	r.server.tasks.Wait()
	if n := len(f.directory.entries); log.asked.Load() != 1 || n != 1000 {
		t.Errorf("asked %d times; %d entries are listed, want those of the last batch", log.asked.Load(), n)
	}
}
