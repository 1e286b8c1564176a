package replica

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

const (
	// tellEvery is how often a start that waits says so in the log, and lookEvery how often
	// it looks why it has to.
	tellEvery = 30 * time.Second
	lookEvery = time.Second
	// quiet is how long NATS may send nothing before a start says so: it sends something
	// every 2 s to who is connected.
	quiet = 5 * time.Second
)

// opening is one step of a start.
type opening struct {
	does   string
	since  time.Time
	shared Shared // nil while it is not open, and on a single node
	cause  atomic.Pointer[string]
}

// look notes why the shared state is not connected. It may wait for it.
func (o *opening) look() {
	away, says := o.shared.(interface{ Trouble() error })
	if !says {
		return
	}
	text := ""
	if err := away.Trouble(); err != nil {
		text = err.Error()
	}
	o.cause.Store(&text)
}

// waits says what a start waits for.
func (o *opening) waits() error {
	text := fmt.Sprintf("starting: %s, for %s", o.does, time.Since(o.since).Round(time.Second))
	if cause := o.cause.Load(); cause != nil && *cause != "" {
		text += "; not connected to NATS: " + *cause
	} else if o.shared != nil {
		if silent := o.shared.Silent(); silent >= quiet {
			text += fmt.Sprintf("; nothing from NATS for %s", silent.Round(time.Second))
		}
	}
	return errors.New(text)
}

// tellOpening logs what a start waits for until ctx is done.
func (r *Replica) tellOpening(ctx context.Context) {
	tell, look := time.NewTicker(tellEvery), time.NewTicker(lookEvery)
	defer tell.Stop()
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			r.opening.Load().look()
		case <-tell.C:
			r.log.Warn("starting: not through yet", "reason", r.opening.Load().waits())
		}
	}
}
