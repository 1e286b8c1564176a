package jetstream_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/jetstream"
	"maestrohub.io/uns/tools/localcluster/natsserver"
)

// A connection that carries nothing any more in either direction and never ends, while
// new ones work, is left after the silence, however much was on its way: writes land, and
// watches and tails go on without a gap.
func TestAConnectionThatIsDeadBothWaysIsLeft(t *testing.T) {
	t.Parallel()
	site := sharedSite(t)
	account := site.account(t)
	way, err := natsserver.Hold(site.Servers[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(way.Close)
	var said buffer
	store := site.open(t, account, func(o *jetstream.Options) {
		o.Servers = []string{way.URL(account)}
		o.Silence = 3 * time.Second
		o.Logger = slog.New(slog.NewTextHandler(&said, nil))
	})
	bucket, err := store.Bucket(t.Context(), state.Routes)
	if err != nil {
		t.Fatal(err)
	}
	watch, err := bucket.Watch(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	for !next(t, watch).Ready {
	}
	log, err := store.Log(t.Context(), "ws")
	if err != nil {
		t.Fatal(err)
	}
	tail := log.Tail(0)
	defer tail.Stop()
	const rounds, count = 3, 60
	for round := range rounds {
		way.Strand()
		large := make([]byte, 100<<10)
		large[0] = byte(round)
		failed := make(chan error, 1+count)
		go func() {
			_, err := bucket.Put(t.Context(), "a", large[:1])
			failed <- err
		}()
		for range count {
			go func() {
				_, err := log.Append(t.Context(), [][]byte{large})
				failed <- err
			}()
		}
		for range 1 + count {
			if err := <-failed; err != nil {
				t.Fatalf("round %d: a write over a dead connection: %v", round, err)
			}
		}
		if u := next(t, watch); u.Key != "a" || u.Value[0] != byte(round) {
			t.Errorf("round %d: the watch gave %+v", round, u)
		}
		for got := 0; got < count; {
			entries, err := tail.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if e.Data[0] != byte(round) {
					t.Fatalf("round %d: the tail gave an entry of round %d", round, e.Data[0])
				}
			}
			got += len(entries)
		}
	}
	// A server that is slow for long enough counts as well.
	if n := strings.Count(said.String(), "NATS connection silent"); n < rounds {
		t.Errorf("of %d dead connections %d were left for their silence:\n%s", rounds, n, said.String())
	}
}
