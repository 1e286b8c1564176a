package jetstream

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"

	"maestrohub.io/uns/broker/state"
)

const (
	// applyWidth is how many writes of one Apply are out at a time when they
	// go one by one.
	applyWidth = 256
	// applyBatch and applyBytes bound one atomic batch.
	applyBatch = 500
	applyBytes = 1 << 20
)

// Apply implements state.Bucket. As a rule every condition holds, so the writes
// are tried as an atomic batch, which costs the servers a quarter. If that is
// refused they go one by one under the same message ids: what may have landed as
// a batch after all is then a duplicate, and the batch one if it comes late.
func (b *bucket) Apply(ctx context.Context, writes []state.Write) []state.Result {
	results := make([]state.Result, len(writes))
	keys := make(map[string]struct{}, len(writes))
	var group, single []int
	requests := make([]request, len(writes))
	bytes := 0
	for i, w := range writes {
		if _, twice := keys[w.Key]; twice {
			results[i].Err = fmt.Errorf("%v %q in %s: the key is twice among the writes", w.Op, shorten(w.Key), b.name)
			continue
		}
		keys[w.Key] = struct{}{}
		requests[i] = request{Write: w, id: b.conn.messageID()}
		if !b.batchable(w) {
			single = append(single, i)
			continue
		}
		if len(group) == applyBatch || bytes+len(w.Value) > applyBytes {
			single = append(single, b.applyGroup(ctx, requests, group, results)...)
			group, bytes = group[:0], 0
		}
		group = append(group, i)
		bytes += len(w.Value)
	}
	single = append(single, b.applyGroup(ctx, requests, group, results)...)
	slots := make(chan struct{}, applyWidth)
	var wg sync.WaitGroup
	for _, i := range single {
		slots <- struct{}{}
		wg.Go(func() {
			results[i].Revision, results[i].Err = b.write(ctx, requests[i])
			<-slots
		})
	}
	wg.Wait()
	return results
}

// batchable: the write is one message whose refusal is the server's to say.
func (b *bucket) batchable(w state.Write) bool {
	if state.CheckKey(w.Key) != nil {
		return false
	}
	switch w.Op {
	case state.OpPut, state.OpCreate:
		return true
	case state.OpUpdate:
		return w.Revision > 0
	case state.OpDelete:
		return w.Revision > 0 && b.live.has(w.Revision)
	}
	return false
}

// applyGroup tries some of the requests as an atomic batch and returns those
// that have to go one by one.
func (b *bucket) applyGroup(ctx context.Context, requests []request, group []int, results []state.Result) (rest []int) {
	if len(group) < 2 || b.conn.closed() != nil {
		return group
	}
	msgs := make([]*nats.Msg, len(group))
	for k, i := range group {
		expected := int64(-1)
		switch requests[i].Op {
		case state.OpCreate:
			expected = 0
		case state.OpUpdate, state.OpDelete:
			expected = int64(requests[i].Revision)
		}
		m, err := b.message(requests[i], expected)
		if err != nil {
			return group
		}
		m.Header[headerBatchSequence] = []string{strconv.Itoa(k + 1)}
		msgs[k] = m
	}
	msgs[len(msgs)-1].Header[headerBatchCommit] = []string{"1"}
	var last uint64
	err := b.conn.exchange(ctx, func(reply string) []*nats.Msg {
		batch := []string{newID()}
		again := make([]*nats.Msg, len(msgs))
		for k, m := range msgs {
			n := &nats.Msg{Subject: m.Subject, Header: make(nats.Header, len(m.Header)+1), Data: m.Data}
			for name, values := range m.Header {
				n.Header[name] = values
			}
			n.Header[headerBatch] = batch
			again[k] = n
		}
		again[len(again)-1].Reply = reply
		return again
	}, func(m *nats.Msg) verdict {
		var a publishAnswer
		if err := json.Unmarshal(m.Data, &a); err != nil {
			return unknown
		}
		if a.Error != nil && (a.Error.Code == codeBatchIncomplete || a.Error.Code == codeBatchesInFlight || a.Error.Status >= 500) {
			return refused
		}
		last = a.Sequence
		return settled
	})
	if err == nil && last == 0 {
		return group
	}
	for k, i := range group {
		if err != nil {
			results[i].Err = fmt.Errorf("%v %q in %s: %w", requests[i].Op, shorten(requests[i].Key), b.name, err)
			continue
		}
		results[i].Revision = last - uint64(len(group)-1-k)
		if requests[i].Op != state.OpDelete {
			b.live.add(results[i].Revision)
		}
	}
	b.seen(last)
	return nil
}
