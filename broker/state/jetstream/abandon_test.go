package jetstream_test

import (
	"errors"
	"testing"
	"time"

	"maestrohub.io/uns/broker/state"
)

func TestAnAbandonedBatchDoesNotLandAfterTheNext(t *testing.T) {
	t.Parallel()
	site := ownSite(t, 1)
	account := site.account(t)
	if _, err := site.open(t, account, nil).Log(t.Context(), "ws"); err != nil {
		t.Fatal(err)
	}
	hung := follower(t, site, account, "LOG_mqtt-sessions-ws")
	log, err := site.open(t, account, first(hung, account)).Log(t.Context(), "ws")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.Append(t.Context(), [][]byte{[]byte("one")}); err != nil {
		t.Fatal(err)
	}
	if err := hung.Pause(); err != nil {
		t.Fatal(err)
	}
	results := make(chan error, 2)
	ctx, cancel := contextFor(t, 100*time.Millisecond)
	defer cancel()
	go func() { _, err := log.Append(t.Context(), [][]byte{[]byte("two")}); results <- err }()
	<-ctx.Done() // "two" is in the hung server's socket
	go func() { _, err := log.Append(t.Context(), [][]byte{[]byte("three")}); results <- err }()
	log.(interface{ Abandon() }).Abandon()
	unknown := <-results
	if !errors.Is(unknown, state.ErrUnknown) && !errors.Is(unknown, state.ErrUnavailable) {
		t.Errorf("abandoned append: %v", unknown)
	}
	last, err := log.Append(t.Context(), [][]byte{[]byte("four")})
	if err != nil {
		t.Fatal(err)
	}
	if err := hung.Resume(); err != nil {
		t.Fatal(err)
	}
	<-results // "three" was behind "two", or came after the abandonment and has landed
	ready, cancel := contextFor(t, time.Minute)
	defer cancel()
	if err := site.Ready(ready); err != nil {
		t.Fatal(err)
	}
	if _, err := log.Append(t.Context(), [][]byte{[]byte("five")}); err != nil {
		t.Fatal(err)
	}
	entries, err := log.Read(t.Context(), 0, 10, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if string(e.Data) == "two" && e.Sequence > last {
			t.Errorf("the abandoned batch stands at %d, after the next at %d", e.Sequence, last)
		}
	}
	if low, high, err := log.Bounds(t.Context()); err != nil || low != 1 || high != entries[len(entries)-1].Sequence {
		t.Errorf("bounds %d, %d, error %v; entries %v", low, high, err, entries)
	}
	if n := state.Span(log, 1, last+1); n == 0 || n > 6 {
		t.Errorf("span of about 4 entries is %d", n)
	}
}
