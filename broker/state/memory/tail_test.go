package memory

import (
	"testing"
	"testing/synctest"
	"time"
)

// Entries that are too old and not dropped yet are nothing to read: a tail waits for the
// next one, and does not look again and again.
func TestATailWaitsWhereAllThereIsIsTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(1<<20, 1500*time.Millisecond)
		defer l.close()
		add := func(record string) {
			if _, err := l.Append(t.Context(), [][]byte{[]byte(record)}); err != nil {
				t.Fatal(err)
			}
		}
		add("old")
		time.Sleep(900 * time.Millisecond)
		add("old too")
		time.Sleep(1500 * time.Millisecond) // both are too old, and one of them is still there
		l.mu.Lock()
		all := l.first == l.next
		l.mu.Unlock()
		if all {
			t.Fatal("everything was dropped: nothing is shown")
		}
		tl := l.Tail(1).(*tail)
		if wait, err := tl.enter(); err != nil || !wait {
			t.Fatalf("waits %v, %v; want it to wait", wait, err)
		}
		tl.leave()
		next := make(chan string)
		go func() {
			entries, err := tl.Next(t.Context())
			if err != nil || len(entries) != 1 {
				t.Errorf("%d entries, %v", len(entries), err)
			}
			next <- string(entries[0].Data)
		}()
		synctest.Wait()
		add("new")
		if got := <-next; got != "new" {
			t.Errorf("got %q, want the new entry", got)
		}
	})
}
