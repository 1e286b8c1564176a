package jetstream_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"maestrohub.io/uns/broker/state"
)

// A stream that is deleted and made again before anybody has listed the streams in between
// is another one: what a store knows of the old one's sequences fits it no more, and it
// would take the new one's records for older than its own.
func TestAStreamThatIsMadeAgainAtOnceIsGone(t *testing.T) {
	site := sharedSite(t)
	for stream, open := range map[string]func(state.Store) error{
		"KV_mqtt-sessions":      func(s state.Store) error { _, err := s.Bucket(t.Context(), state.Sessions); return err },
		"LOG_mqtt-sessions-one": func(s state.Store) error { _, err := s.Log(t.Context(), "one"); return err },
	} {
		account := site.account(t)
		store := site.open(t, account, nil)
		if err := errors.Join(open(store), store.Probe(t.Context())); err != nil {
			t.Fatal(err)
		}
		nc, err := nats.Connect(site.URL(account))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		js, err := nc.JetStream()
		if err != nil {
			t.Fatal(err)
		}
		if err := js.DeleteStream(stream); err != nil {
			t.Fatal(err)
		}
		other := site.open(t, account, nil)
		if err := open(other); err != nil {
			t.Fatal(err)
		}
		// Each probe has one stream asked, and waits for none.
		ctx, cancel := contextFor(t, 20*time.Second)
		defer cancel()
		for err = nil; err == nil; {
			err = store.Probe(ctx)
		}
		if !errors.Is(err, state.ErrUnavailable) || !strings.Contains(err.Error(), stream) {
			t.Errorf("%s: the probes say %v", stream, err)
		}
		if err := store.Probe(ctx); err == nil {
			t.Errorf("%s: it is not gone for good", stream)
		}
		for range 20 {
			if err := other.Probe(ctx); err != nil {
				t.Errorf("%s: who made it again says %v", stream, err)
			}
		}
	}
}
