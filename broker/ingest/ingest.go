package ingest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"maestrohub.io/uns/broker/access"
)

// Ingest is the one door for values. All methods may be called at once.
type Ingest struct {
	o       Options
	metrics counters
	// epoch is what the lanes measure time from.
	epoch time.Time
	// ctx ends when Stop no longer waits for the stores.
	ctx    context.Context
	cancel context.CancelFunc

	// lanes holds a *lane per workspace slug. A lane is made for the first value
	// of a workspace and kept: idle, it is a few hundred bytes without goroutine
	// or timer, and only workspaces of API clients ever get one.
	lanes sync.Map

	mu       sync.Mutex  // guards making lanes against Stop and Fence; MayAct is asked under it
	stopping bool        // guarded by mu
	fenced   atomic.Bool // between Fence and Serve; written under mu
}

// New returns an Ingest that runs until Stop.
func New(o Options) *Ingest {
	i := &Ingest{o: o.withDefaults(), epoch: time.Now()}
	i.metrics = newCounters(o.Metrics)
	i.ctx, i.cancel = context.WithCancel(context.Background())
	i.readings()
	return i
}

// now is the time since the ingest's start, on the monotonic clock.
func (i *Ingest) now() time.Duration { return time.Since(i.epoch) }

// Publish takes one value. Its outcome goes to p.Done, perhaps before Publish
// returns. While the workspace has no room Publish waits, AppendWait at most:
// this is the back-pressure that stops a connection from reading.
func (i *Ingest) Publish(p Publish) {
	l, e, refused := i.admit(&p)
	if refused.Refusal == 0 {
		refused = l.accept(e, i.o.AppendWait)
	}
	if refused.Refusal != 0 {
		i.refused(&p, refused)
		p.Done.Complete(p.Slot, refused)
		p.Done.Flush()
	}
}

// PublishBatch takes several values in order, as Publish would, for less. All
// its waiting for room together is bounded by AppendWait. The slice stays the
// caller's.
func (i *Ingest) PublishBatch(batch []Publish) {
	var (
		deadline = i.now() + i.o.AppendWait
		lane     *lane
		run      []*entry // admitted, of one lane, not yet handed over
		from     int      // index in batch of run[0]
		done     flushes
		full     Outcome // the refusal for want of room, which those behind it share
	)
	hand := func() {
		if len(run) == 0 {
			return
		}
		for n, outcome := range lane.acceptAll(run, deadline-i.now()) {
			if outcome.Refusal != 0 {
				p := &batch[from+n]
				i.refused(p, outcome)
				done.complete(p.Done, p.Slot, outcome)
				full = outcome
			}
		}
		run = run[:0]
	}
	for n := range batch {
		p := &batch[n]
		l, e, refused := i.admit(p)
		if refused.Refusal != 0 || full.Refusal != 0 {
			hand()
			if refused.Refusal == 0 {
				refused = full
			}
			i.refused(p, refused)
			done.complete(p.Done, p.Slot, refused)
			continue
		}
		if l != lane {
			hand()
			lane = l
		}
		if len(run) == 0 {
			from = n
		}
		run = append(run, e)
	}
	hand()
	done.flush()
}

// Check says what admission would say of a name alone: for a Last Will, which
// must not wait for its publication to learn that it may not be published.
func (i *Ingest) Check(name string, g *access.Grants) Outcome {
	_, _, refused := i.address(name, g)
	return refused
}

// refused counts and reports a refusal.
func (i *Ingest) refused(p *Publish, o Outcome) {
	i.report(p.Grants, rejection{topic: p.Name, clientID: p.ClientID, qos: p.QoS, Outcome: o})
}

// lane returns the workspace's lane; nil if there is none and none may be made. A
// lane that a fence ended is followed by another one, never used again.
func (i *Ingest) lane(workspace string) *lane {
	if l := i.made(workspace); l != nil && !l.over.Load() {
		return l
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	before := i.made(workspace)
	if before != nil && !before.over.Load() {
		return before
	}
	if i.stopping || !i.serves() {
		return nil
	}
	l := newLane(i, workspace, before)
	i.lanes.Store(workspace, l)
	return l
}

// made returns the workspace's last lane, nil if there was none.
func (i *Ingest) made(workspace string) *lane {
	if l, ok := i.lanes.Load(workspace); ok {
		return l.(*lane)
	}
	return nil
}

// Stop refuses new values (Shed) and waits until every value in the lanes is
// settled. If ctx ends first, what is left gets its outcome at once: Shed, though
// it may have been stored. The error then says how many those were.
func (i *Ingest) Stop(ctx context.Context) error {
	i.mu.Lock()
	i.stopping = true
	i.mu.Unlock()
	var lanes []*lane
	i.lanes.Range(func(_, l any) bool {
		lanes = append(lanes, l.(*lane))
		return true
	})
	for _, l := range lanes {
		l.close()
	}
	left := 0
	for _, l := range lanes {
		select {
		case <-l.drained:
			continue
		case <-ctx.Done():
		}
		i.cancel()
		left += l.abandon()
		select {
		case <-l.drained:
		case <-time.After(time.Second): // a store, Live or a Completion does not come back
		}
	}
	i.cancel()
	if left > 0 {
		return fmt.Errorf("stop ingest: %d values unsettled: %w", left, context.Cause(ctx))
	}
	return nil
}
