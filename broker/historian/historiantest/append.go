package historiantest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/value"
)

func appendedValuesAreReadAsTheyWere(t *testing.T, s *suite) {
	s.start()
	envelope := timed("line/1/temp", 1, `{"value":21.5}`)
	envelope.Body = envelope.Payload[9:13]
	opaque := untimed("line/1/blob", 2, 99, "\x00\xff\x00")
	opaque.Kind, opaque.Quality, opaque.Publisher = value.Opaque, 17, ""
	empty := untimed("line/1/empty", 3, 100, "")
	values := []*value.Value{envelope, opaque, empty}
	s.mustAppend(values...)
	for range 2 { // as appended, and as found after a restart
		rows := s.read(everything())
		if len(rows) != len(values) {
			t.Fatalf("%d rows, want %d:\n%s", len(rows), len(values), describe(rows))
		}
		for i, v := range values {
			r := rows[i]
			if r.Topic != v.Topic || r.Publisher != v.Publisher || r.Timestamp != v.Timestamp || r.Received != v.Received ||
				r.Timed != v.Timed || r.Quality != v.Quality || r.Kind != v.Kind || string(r.Body) != string(v.Body) || r.Position != v.Position {
				t.Fatalf("row %d is %+v, appended was %+v", i, r, v)
			}
		}
		s.start()
	}
}

func emptyBatchIsStored(t *testing.T, s *suite) {
	if err := s.start().Append(t.Context(), nil); err != nil {
		t.Fatalf("append no values: %v", err)
	}
}

func positionsIncrease(t *testing.T, s *suite) {
	last := uint64(0)
	for restart := range 4 {
		s.start()
		for batch := range 5 {
			var values []*value.Value
			for i := range int64(7) {
				values = append(values, untimed("a", int64(restart*100+batch)-i, uint64(restart*1000+batch*10)+uint64(i)+1, "1"))
			}
			for _, p := range s.mustAppend(values...) {
				if p <= last {
					t.Fatalf("Position %d after %d, at restart %d batch %d", p, last, restart, batch)
				}
				last = p
			}
		}
	}
}

func timedValueTwice(t *testing.T, s *suite) {
	s.start()
	first := s.mustAppend(timed("a", 1, "1"))[0]
	s.mustAppend(timed("a", 2, "2"))
	if again := s.mustAppend(timed("a", 1, "1"))[0]; again != first {
		t.Fatalf("sent again: Position %d, it was stored with %d", again, first)
	}
	s.start()
	retry := timed("a", 1, "1")
	retry.Received, retry.ClientID, retry.QoS = base+99*second, "other connection", 2
	if again := s.mustAppend(retry)[0]; again != first {
		t.Fatalf("sent again after a restart: Position %d, it was stored with %d", again, first)
	}
	s.expect("all", s.read(everything()), "a @1 1", "a @2 2")
}

func timedValueTwiceInOneBatch(t *testing.T, s *suite) {
	s.start()
	p := s.mustAppend(timed("a", 1, "1"), timed("b", 1, "1"), timed("a", 1, "1"), timed("a", 0, "0"), timed("a", 0, "0"))
	if p[0] != p[2] || p[3] != p[4] || p[0] == p[1] {
		t.Fatalf("Positions %v, want the same for values 0 and 2, and for 3 and 4", p)
	}
	s.expect("all", s.read(everything()), "a @0 0", "a @1 1", "b @1 1")
}

func timedValuesAtOnce(t *testing.T, s *suite) {
	s.start()
	const senders, values = 8, 50
	positions := make([][]uint64, senders)
	var wg sync.WaitGroup
	for sender := range senders {
		wg.Go(func() {
			for i := range int64(values) {
				v := timed("a", i, "x")
				if err := s.h.Append(t.Context(), []*value.Value{v}); err != nil {
					t.Errorf("append: %v", err)
					return
				}
				positions[sender] = append(positions[sender], v.Position)
			}
		})
	}
	wg.Wait()
	for sender := range positions {
		if !slices.Equal(positions[sender], positions[0]) {
			t.Fatalf("sender %d was told Positions %v, sender 0 %v", sender, positions[sender], positions[0])
		}
	}
	if rows := s.read(everything()); len(rows) != values {
		t.Fatalf("%d rows, want %d", len(rows), values)
	}
}

func differingValues(t *testing.T, s *suite) {
	s.start()
	changes := []func(*value.Value){
		func(*value.Value) {},
		func(v *value.Value) { v.Timestamp++ },
		func(v *value.Value) { v.Topic = "a/b" },
		func(v *value.Value) { v.Publisher = "press-8" },
		func(v *value.Value) { v.Body = []byte("2") },
		func(v *value.Value) { v.Quality++ },
		func(v *value.Value) { v.Kind = value.Opaque },
		func(v *value.Value) { v.Timed, v.RowID = false, 5 },
		func(v *value.Value) { v.Timed, v.RowID = false, 6 },
	}
	seen := map[uint64]int{}
	for i, change := range changes {
		v := timed("a", 1, "1")
		change(v)
		p := s.mustAppend(v)[0]
		if other, found := seen[p]; found {
			t.Fatalf("change %d was taken for the same value as change %d", i, other)
		}
		seen[p] = i
	}
	if rows := s.read(everything()); len(rows) != len(changes) {
		t.Fatalf("%d rows, want %d:\n%s", len(rows), len(changes), describe(rows))
	}
}

func retriedUntimedBatch(t *testing.T, s *suite) {
	s.start()
	batch := func() []*value.Value {
		return []*value.Value{untimed("a", 1, 11, "1"), untimed("a", 1, 12, "1"), untimed("b", 1, 13, "1")}
	}
	s.mustAppend(batch()...)
	s.mustAppend(batch()...)
	s.start()
	s.mustAppend(batch()...)
	if rows := s.read(everything()); len(rows) != 3 {
		t.Fatalf("%d rows, want 3:\n%s", len(rows), describe(rows))
	}
}

func lateValues(t *testing.T, s *suite) {
	s.start()
	day := int64(24 * 3600)
	offsets := []int64{0, 400 * day, -400 * day, -day, 3600, -3600, 10, -10 * 365 * day, 30 * day, 5}
	for _, o := range offsets {
		s.mustAppend(timed("a", o, "x"))
	}
	s.start()
	for _, o := range offsets {
		s.mustAppend(timed("a", o, "x")) // again: stored already
	}
	slices.Sort(offsets)
	var want []string
	for _, o := range offsets {
		want = append(want, fmt.Sprintf("a @%d x", o))
	}
	q := everything()
	q.Limit = 3
	s.expect("oldest first", s.read(q), want...)
	slices.Reverse(want)
	q.Newest = true
	s.expect("newest first", s.read(q), want...)
}

func oneBadValue(t *testing.T, s *suite) {
	s.start()
	for name, spoil := range map[string]func(*value.Value){
		"no workspace":         func(v *value.Value) { v.Workspace = "" },
		"no topic":             func(v *value.Value) { v.Topic = "" },
		"a zero byte in topic": func(v *value.Value) { v.Topic = "a\x00b" },
		"a topic too long":     func(v *value.Value) { v.Topic = strings.Repeat("x", 1<<16) },
		"a time before 1970":   func(v *value.Value) { v.Timestamp = -1 },
	} {
		bad := timed("bad", 2, "2")
		spoil(bad)
		good := timed("good", 1, "1")
		err := s.h.Append(t.Context(), []*value.Value{good, bad, timed("good", 3, "3")})
		var ve *historian.ValueError
		if !errors.As(err, &ve) || ve.Index != 1 {
			t.Fatalf("%s: error %v, want a ValueError for value 1", name, err)
		}
		if good.Position != 0 {
			t.Fatalf("%s: a value of the refused batch has Position %d", name, good.Position)
		}
	}
	if rows := s.read(everything()); len(rows) != 0 {
		t.Fatalf("refused batches left rows:\n%s", describe(rows))
	}
}

func endedContext(t *testing.T, s *suite) {
	s.start()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	v := timed("a", 1, "1")
	if err := s.h.Append(ctx, []*value.Value{v}); !errors.Is(err, context.Canceled) || v.Position != 0 {
		t.Fatalf("append with an ended context: error %v, Position %d", err, v.Position)
	}
	if err := s.h.Check(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("check with an ended context: %v", err)
	}
	if _, err := s.h.Read(ctx, everything()); !errors.Is(err, context.Canceled) {
		t.Fatalf("read with an ended context: %v", err)
	}
	s.mustAppend(v)
	if rows := s.read(everything()); len(rows) != 1 {
		t.Fatalf("%d rows after the retry, want 1", len(rows))
	}
}

func appendsAtOnce(t *testing.T, s *suite) {
	s.start()
	const senders, batches, size = 8, 20, 10
	var wg sync.WaitGroup
	for sender := range senders {
		wg.Go(func() {
			topic := fmt.Sprintf("sender/%d", sender)
			last := uint64(0)
			for b := range int64(batches) {
				var values []*value.Value
				for i := range int64(size) {
					values = append(values, timed(topic, b*size+i, "x"))
				}
				if err := s.h.Append(t.Context(), values); err != nil {
					t.Errorf("append: %v", err)
					return
				}
				for _, v := range values {
					if v.Position <= last {
						t.Errorf("%s: Position %d after %d", topic, v.Position, last)
					}
					last = v.Position
				}
			}
		})
	}
	wg.Wait()
	s.start()
	rows := s.read(everything())
	seen := map[uint64]bool{}
	for _, r := range rows {
		seen[r.Position] = true
	}
	if want := senders * batches * size; len(rows) != want || len(seen) != want {
		t.Fatalf("%d rows with %d Positions, want %d", len(rows), len(seen), want)
	}
}

func closedHistorian(t *testing.T, s *suite) {
	h := s.start()
	if err := h.Check(s.within(10 * 1e9)); err != nil {
		t.Fatalf("check: %v", err)
	}
	if err := h.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	if err := h.Append(t.Context(), []*value.Value{timed("a", 1, "1")}); !errors.Is(err, historian.ErrUnavailable) {
		t.Errorf("append after Close: %v, want ErrUnavailable", err)
	}
	if err := h.Check(t.Context()); !errors.Is(err, historian.ErrUnavailable) {
		t.Errorf("check after Close: %v, want ErrUnavailable", err)
	}
	if _, err := h.Read(t.Context(), everything()); !errors.Is(err, historian.ErrUnavailable) {
		t.Errorf("read after Close: %v, want ErrUnavailable", err)
	}
	if err := h.Close(); err != nil {
		t.Errorf("close again: %v", err)
	}
}
