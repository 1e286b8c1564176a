package main

import (
	"fmt"
	"io"
	"slices"
	"sync"
)

// traces are what the drill has made or broken and not taken back yet, each with how a
// person does it. The zero value is ready.
type traces struct {
	mu   sync.Mutex
	list []string
}

// leave notes one, and returns what takes it off again.
func (t *traces) leave(format string, a ...any) (taken func()) {
	text := fmt.Sprintf(format, a...)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(t.list, text)
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if i := slices.Index(t.list, text); i >= 0 {
			t.list = slices.Delete(t.list, i, i+1)
		}
	}
}

// tell says what is left, if anything is.
func (t *traces) tell(w io.Writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, text := range t.list {
		fmt.Fprintln(w, "left behind:", text)
	}
}
