package kubernetes_test

import (
	"testing"
	"time"
)

// lane lets one test at a time go on. Most of a test is waiting, so that one of each
// lane goes on beside one of the other.
type lane chan struct{}

var (
	rows          = make(lane, 1) // tests of the shared release
	installations = make(lane, 1) // tests that install a release of their own
)

// enter waits for the lane to be free and keeps it until the test ends.
func (l lane) enter(t *testing.T) {
	t.Helper()
	t.Parallel()
	l <- struct{}{}
	began := time.Now()
	t.Cleanup(func() {
		row(t, t.Name(), "", "took "+time.Since(began).Round(time.Second).String())
		<-l
	})
}
