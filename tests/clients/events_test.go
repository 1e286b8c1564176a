package clients_test

import (
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tools/launch"
)

// events are the lines a program prints, in their order, split at tabs.
type events struct {
	process *launch.Process
	queue   chan []string
}

// follow reads a program's lines from the start. take may keep a line to itself;
// the others are what expect waits for. ended is called after the last line.
func follow(p *launch.Process, take func(words []string) bool, ended func()) *events {
	e := &events{process: p, queue: make(chan []string, 1000)}
	go func() {
		defer close(e.queue)
		defer ended()
		for line := range p.Lines() {
			if words := strings.Split(line, "\t"); !take(words) {
				e.queue <- words
			}
		}
	}()
	return e
}

// expect returns the next line that is not the program's own chatter; its first
// word must be the event.
func (e *events) expect(t *testing.T, event string) []string {
	t.Helper()
	timeout := time.After(harness.Patience)
	for {
		select {
		case words, ok := <-e.queue:
			switch {
			case !ok:
				t.Fatalf("%s ended before %q", e.process.Name(), event)
			case words[0] == event:
				return words
			case words[0] == "error":
				t.Fatalf("%s said %q, want %q", e.process.Name(), words, event)
			}
		case <-timeout:
			t.Fatalf("%s did not say %q within %s", e.process.Name(), event, harness.Patience)
		}
	}
}
