package retained

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/memory"
	"maestrohub.io/uns/broker/topic"
	"maestrohub.io/uns/broker/value"
)

func message(name string, position uint64, payload string) *value.Value {
	v := &value.Value{
		Workspace: "acme", Name: name, Topic: name, Publisher: "press-7", Position: position,
		Payload: []byte(payload), Received: time.Now().UnixNano(), Retain: true, QoS: 1,
	}
	v.Body = v.Payload
	return v
}

func openStore(t *testing.T) state.Store {
	t.Helper()
	store, err := memory.Open(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func openRetained(t *testing.T, store state.Store) *Retained {
	t.Helper()
	r, err := Open(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func put(t *testing.T, r *Retained, values ...*value.Value) {
	t.Helper()
	if err := r.Put(t.Context(), values); err != nil {
		t.Fatalf("put: %v", err)
	}
}

// payload returns the message of a topic as text, "" for none.
func payload(r *Retained, name string) string {
	if v := r.Get(name); v != nil {
		return string(v.Payload)
	}
	return ""
}

func names(r *Retained, filter string) []string {
	var names []string
	r.Match(filter, func(v *value.Value) bool {
		names = append(names, v.Name)
		return true
	})
	slices.Sort(names)
	return names
}

func TestNewestPositionWinsWhateverComesFirst(t *testing.T) {
	store := openStore(t)
	a, b := openRetained(t, store), openRetained(t, store)
	put(t, a, message("t", 5, "five"))
	put(t, b, message("t", 3, "three"))
	if got := payload(a, "t"); got != "five" {
		t.Fatalf("after positions 5 and 3: %q, want five", got)
	}
	put(t, b, message("t", 9, "nine"), message("t", 8, "eight"))
	put(t, a, message("t", 7, "seven"))
	if got := payload(a, "t"); got != "nine" {
		t.Fatalf("after positions 9, 8 and 7: %q, want nine", got)
	}
	if got := payload(openRetained(t, store), "t"); got != "nine" {
		t.Fatalf("a replica that starts now has %q, want nine", got)
	}
}

func TestRivalsOnManyReplicasEndWithTheNewest(t *testing.T) {
	store := openStore(t)
	var wg sync.WaitGroup
	const replicas, puts = 4, 50
	for n := range replicas {
		r := openRetained(t, store)
		wg.Go(func() {
			for i := range puts {
				position := uint64(i*replicas + n + 1)
				if err := r.Put(t.Context(), []*value.Value{message("hot", position, fmt.Sprint(position))}); err != nil {
					t.Errorf("put %d: %v", position, err)
				}
			}
		})
	}
	wg.Wait()
	if got, want := payload(openRetained(t, store), "hot"), fmt.Sprint(replicas*puts); got != want {
		t.Fatalf("the message is %q, want %q", got, want)
	}
}

func TestOtherReplicasLearnOfAPut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := openStore(t)
		a, b := openRetained(t, store), openRetained(t, store)
		put(t, a, message("t", 1, "x"))
		synctest.Wait()
		if got := payload(b, "t"); got != "x" {
			t.Fatalf("the other replica has %q, want x", got)
		}
		put(t, b, message("t", 0, ""))
		synctest.Wait()
		if got := payload(a, "t"); got != "" {
			t.Fatalf("after the removal by the other replica: %q", got)
		}
	})
}

func TestEmptyPayloadRemovesAndOlderValuesStayAway(t *testing.T) {
	store := openStore(t)
	r := openRetained(t, store)
	put(t, r, message("t", 5, "x"), message("u", 6, "y"))
	put(t, r, message("t", 0, ""))
	if got, n := payload(r, "t"), r.Len(); got != "" || n != 1 {
		t.Fatalf("after the removal: message %q, %d messages, want none and 1", got, n)
	}
	put(t, r, message("t", 4, "late"))
	if got := payload(openRetained(t, store), "t"); got != "" {
		t.Fatalf("a value older than the removed one came back: %q", got)
	}
	put(t, r, message("t", 7, "new"))
	if got := payload(r, "t"); got != "new" {
		t.Fatalf("a newer value after the removal: %q, want new", got)
	}
}

func TestFilterFindsWhatMatches(t *testing.T) {
	r := openRetained(t, openStore(t))
	random := rand.New(rand.NewPCG(1, 2))
	level := func() string { return []string{"", "a", "b", "c", "$s"}[random.IntN(5)] }
	all := map[string]bool{}
	for range 300 {
		levels := []string{level()}
		for range random.IntN(4) {
			levels = append(levels, level())
		}
		if name := strings.Join(levels, "/"); name != "" {
			all[name] = true
			put(t, r, message(name, 1, "x"))
		}
	}
	for range 500 {
		var levels []string
		for range 1 + random.IntN(4) {
			levels = append(levels, []string{"+", "a", "b", "", "$s"}[random.IntN(5)])
		}
		if random.IntN(2) == 0 {
			levels = append(levels, "#")
		}
		filter := strings.Join(levels, "/")
		if topic.ValidateFilter(filter) != nil {
			continue
		}
		var want []string
		for name := range all {
			if topic.Match(filter, name) {
				want = append(want, name)
			}
		}
		slices.Sort(want)
		if got := names(r, filter); !slices.Equal(got, want) {
			t.Fatalf("filter %q: %q, want %q", filter, got, want)
		}
	}
	for name := range all {
		put(t, r, message(name, 0, ""))
	}
	if got := names(r, "#"); len(got) != 0 || r.Len() != 0 {
		t.Fatalf("after every removal: %q, %d messages", got, r.Len())
	}
}

func TestMatchStopsAndMayCallBack(t *testing.T) {
	r := openRetained(t, openStore(t))
	put(t, r, message("a", 1, "x"), message("b", 2, "x"), message("c", 3, "x"))
	n := 0
	r.Match("#", func(v *value.Value) bool {
		n++
		put(t, r, message(v.Name, 0, ""))
		return n < 2
	})
	if n != 2 || r.Len() != 1 {
		t.Fatalf("yield was called %d times and %d messages are left, want 2 and 1", n, r.Len())
	}
}

func TestExpiredMessageIsNeverGivenOutAndLeavesTheBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := openStore(t)
		r := openRetained(t, store)
		v := message("t", 1, "x")
		v.Expires = time.Now().Add(10 * time.Second).UnixNano()
		put(t, r, v, message("kept", 2, "y"))
		time.Sleep(10*time.Second - 1)
		if got := payload(r, "t"); got != "x" {
			t.Fatalf("just before it expires: %q, want x", got)
		}
		time.Sleep(time.Nanosecond)
		if got := names(r, "#"); payload(r, "t") != "" || !slices.Equal(got, []string{"kept"}) {
			t.Fatalf("once expired: %q by name, %q by filter", payload(r, "t"), got)
		}
		time.Sleep(2 * sweepEvery)
		synctest.Wait()
		bucket, err := store.Bucket(t.Context(), state.Retained)
		if err != nil {
			t.Fatal(err)
		}
		if records, err := bucket.List(t.Context(), ""); err != nil || len(records) != 1 || r.Len() != 1 {
			t.Fatalf("after the sweep: %d records, %d messages, error %v, want 1 and 1", len(records), r.Len(), err)
		}
	})
}

func TestRemovalIsSweptAfterTheTombstoneAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := openStore(t)
		r := openRetained(t, store)
		put(t, r, message("t", 1, "x"))
		put(t, r, message("t", 0, ""))
		bucket, err := store.Bucket(t.Context(), state.Retained)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			after time.Duration
			want  int
		}{{state.TombstoneAge - time.Minute, 1}, {4 * time.Minute, 0}} {
			time.Sleep(c.after)
			synctest.Wait()
			if records, err := bucket.List(t.Context(), ""); err != nil || len(records) != c.want {
				t.Fatalf("%d records, error %v, want %d", len(records), err, c.want)
			}
		}
		put(t, r, message("t", 9, "again"))
		if got := payload(r, "t"); got != "again" {
			t.Fatalf("a value after the sweep: %q, want again", got)
		}
	})
}

func TestUnreadableRecordIsLeftOutAndCanBeReplaced(t *testing.T) {
	store := openStore(t)
	bucket, err := store.Bucket(t.Context(), state.Retained)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bucket.Put(t.Context(), "t", []byte{value.Format + 1}); err != nil {
		t.Fatal(err)
	}
	r := openRetained(t, store)
	if got := names(r, "#"); len(got) != 0 {
		t.Fatalf("an unreadable record is given out as %q", got)
	}
	put(t, r, message("t", 1, "x"))
	if got := payload(r, "t"); got != "x" {
		t.Fatalf("put over an unreadable record: %q, want x", got)
	}
}

func TestOpenGivesUpWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, openStore(t)); !errors.Is(err, context.Canceled) {
		t.Fatalf("open with an ended context: %v", err)
	}
}
