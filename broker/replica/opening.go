package replica

import (
	"context"
	"fmt"
	"time"
)

const (
	// tellEvery is how often a start that waits says so in the log.
	tellEvery = 30 * time.Second
	// quiet is how long NATS may send nothing before a start says so: it sends something
	// every 2 s to who is connected.
	quiet = 5 * time.Second
)

// opening is one step of a start.
type opening struct {
	does   string
	since  time.Time
	shared Shared // nil while it is not open, and on a single node
}

// waits says what a start waits for.
func (o *opening) waits() error {
	text := fmt.Sprintf("starting: %s, for %s", o.does, time.Since(o.since).Round(time.Second))
	if o.shared != nil {
		if silent := o.shared.Silent(); silent >= quiet {
			text += fmt.Sprintf("; nothing from NATS for %s", silent.Round(time.Second))
		}
	}
	return fmt.Errorf("%s", text)
}

// tellOpening logs what a start waits for until ctx is done.
func (r *Replica) tellOpening(ctx context.Context) {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.log.Warn("starting: not through yet", "reason", r.opening.Load().waits())
		}
	}
}
