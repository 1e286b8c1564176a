package clients_test

import (
	"iter"
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/tests/harness"
)

// events are the lines a client prints, in their order, split at tabs.
type events struct {
	client string
	queue  chan []string
}

// follow reads a client's lines from the start. take may keep a line to itself;
// the others are what expect waits for. ended is called after the last line.
func follow(client string, lines iter.Seq[string], take func(words []string) bool, ended func()) *events {
	e := &events{client: client, queue: make(chan []string, 1000)}
	go func() {
		defer close(e.queue)
		defer ended()
		for line := range lines {
			if words := strings.Split(line, "\t"); !take(words) {
				e.queue <- words
			}
		}
	}()
	return e
}

// expect returns the next line that is not the client's own chatter; its first
// word must be the event.
func (e *events) expect(t *testing.T, event string) []string {
	t.Helper()
	timeout := time.After(harness.Patience)
	for {
		select {
		case words, ok := <-e.queue:
			switch {
			case !ok:
				t.Fatalf("%s ended before %q", e.client, event)
			case words[0] == event:
				return words
			case words[0] == "error":
				t.Fatalf("%s said %q, want %q", e.client, words, event)
			}
		case <-timeout:
			t.Fatalf("%s did not say %q within %s", e.client, event, harness.Patience)
		}
	}
}
