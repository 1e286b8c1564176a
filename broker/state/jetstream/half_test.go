package jetstream_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/jetstream"
)

// A NATS cluster that has begun without one of its servers says something else than one
// whose server went down. Either way a stream waits for all its copies, and is made then.
func TestAStreamWaitsForAServerThatHasNotComeYet(t *testing.T) {
	t.Parallel()
	site := ownSite(t, 1)
	account := site.account(t)
	for _, s := range site.Servers {
		s.Kill()
	}
	for _, s := range site.Servers[:2] {
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
	}
	var said buffer
	store := site.open(t, account, func(o *jetstream.Options) { o.Logger = slog.New(slog.NewTextHandler(&said, nil)) })
	made := make(chan error, 1)
	go func() {
		_, err := store.Bucket(t.Context(), state.Routes)
		made <- err
	}()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(said.String(), "cannot be made yet") {
		select {
		case err := <-made:
			t.Fatalf("two of three servers: it is made, or given up: %v", err)
		case <-tick.C:
		}
	}
	if err := site.Servers[2].Start(); err != nil {
		t.Fatal(err)
	}
	if err := <-made; err != nil {
		t.Error(err)
	}
}
