package harness

import (
	"context"
	"regexp"
	"testing"
	"time"

	"maestrohub.io/uns/tools/launch"
)

// Patience is how long a test waits for what a broker does at once on a machine
// with nothing else to do.
const Patience = 20 * time.Second

// Eventually asks until the condition holds. It fails the test, saying what was
// waited for and what the condition said last, when Patience is over.
func Eventually(t testing.TB, what string, condition func() (ok bool, state string)) {
	t.Helper()
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, state := condition()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited %s for %s; last: %s", Patience, what, state)
		}
	}
}

// Program starts a program for a test. It is killed when the test ends, and what
// it printed is logged if the test failed.
func Program(t testing.TB, spec launch.Spec) *launch.Process {
	t.Helper()
	p, err := launch.Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("%s printed:\n%s", p.Name(), tail(p.Output(), 100))
		}
	})
	return p
}

// WaitFor waits until a program's output matches and returns the submatches.
func WaitFor(t testing.TB, p *launch.Process, pattern string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	m, err := p.WaitFor(ctx, regexp.MustCompile(pattern))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Require skips nothing: a test whose third-party program is not installed fails
// and says how to install it.
func Require(t testing.TB, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if !exists(path) {
			t.Fatalf("%s is not there: run `make setup`", path)
		}
	}
}
