package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"maestrohub.io/uns/broker/historian"
)

const (
	// probeEvery is how often each store is asked whether it takes writes.
	probeEvery = 2 * time.Second
	// probeBound is how long a store may fail to answer before the replica is not
	// ready. A store that says why it cannot serve is believed at once.
	probeBound = 15 * time.Second

	stateProbe     = "shared state"
	historianProbe = "historian"
)

// probe is one store that must take writes for the replica to be ready.
type probe struct {
	name  string
	check func(ctx context.Context) error

	mu     sync.Mutex
	proven time.Time // guarded by mu: when the last check that succeeded was sent
	err    error     // guarded by mu: what the last check said
}

// once checks the store. The answer counts from when it was asked for.
func (p *probe) once(ctx context.Context) (changed bool, err error) {
	sent := time.Now()
	ctx, cancel := context.WithTimeout(ctx, probeBound)
	defer cancel()
	err = p.check(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	changed = (p.err == nil) != (err == nil)
	if p.err = err; err == nil {
		p.proven = sent
	}
	return changed, err
}

// state returns why the store cannot serve, nil if it can.
func (p *probe) state() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	silent := time.Since(p.proven)
	switch {
	case p.err != nil && errors.Is(p.err, historian.ErrUnavailable):
		return fmt.Errorf("%s: %w", p.name, p.err)
	case silent >= probeBound && p.err != nil:
		return fmt.Errorf("%s: has taken no write for %s: %w", p.name, silent.Round(time.Second), p.err)
	case silent >= probeBound:
		return fmt.Errorf("%s: has not answered for %s", p.name, silent.Round(time.Second))
	}
	return nil
}

// run probes until ctx is done, logs each change and calls after behind each probe.
func (p *probe) run(ctx context.Context, log *slog.Logger, after func()) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		changed, err := p.once(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case changed && err != nil:
			log.Error(p.name+" does not take writes", "error", err)
		case changed:
			log.Info(p.name + " takes writes")
		}
		after()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
