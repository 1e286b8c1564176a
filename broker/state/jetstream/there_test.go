package jetstream_test

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"maestrohub.io/uns/broker/state"
)

// A server that has just come to lead the others may not know of a stream that was made a
// moment ago, and says that there is none. Whoever has opened it asks again.
func TestAStreamThatWasOpenedIsAskedForAgain(t *testing.T) {
	site := sharedSite(t)
	account := site.account(t)
	store := site.open(t, account, nil)
	log, err := store.Log(t.Context(), "ws")
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(operator(t, site, account))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "LOG_mqtt-sessions-ws")
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	if err := js.DeleteStream(t.Context(), config.Name); err != nil {
		t.Fatal(err)
	}
	made := make(chan error, 1)
	time.AfterFunc(200*time.Millisecond, func() {
		_, err := js.CreateStream(t.Context(), config)
		made <- err
	})
	_, _, err = log.Bounds(t.Context())
	if failed := <-made; failed != nil {
		t.Fatal(failed)
	}
	if err != nil {
		t.Errorf("of a stream that was away for a moment: %v", err)
	}
	if err := js.DeleteStream(t.Context(), config.Name); err != nil {
		t.Fatal(err)
	}
	if _, _, err := log.Bounds(t.Context()); !errors.Is(err, state.ErrUnavailable) || errors.Is(err, state.ErrNotFound) {
		t.Errorf("of one that is gone: %v, want %v", err, state.ErrUnavailable)
	}
}
