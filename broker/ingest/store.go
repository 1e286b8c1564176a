package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/value"
)

// job is one batch on its way into the historian. It belongs to the storing role,
// which passes from a goroutine stuck in a hung write to the watchdog's.
type job struct {
	batch []*entry
	// parts is what is not stored yet, in lane order; slices of batch.
	parts []part
	// values is what the current write was given.
	values []*value.Value
	// tainted: a write of these values was given up on and may still set their
	// Position, so each further write gets copies.
	tainted bool
}

// part is a run of entries written at once.
type part struct {
	entries []*entry
	hung    int // writes given up on
}

// hungPieces is how many pieces a hung part is cut into, so that three hung
// writes isolate one value of a full batch from nearly all others.
const hungPieces = 16

// errAllHung stands for a write that was not tried because too many hang.
var errAllHung = fmt.Errorf("%w: %d earlier writes hang", historian.ErrUnavailable, hungInFlight)

// store is the storing role: it carries batches until none gathers. With j it
// goes on with a batch taken over.
func (l *lane) store(j *job) {
	for {
		if j == nil {
			if j = l.nextJob(); j == nil {
				return
			}
		}
		p := &j.parts[0]
		if l.ctx.Err() != nil {
			refuseAll(p.entries, Shed, "this replica stopped serving before the value was stored")
		} else if j.collect(p); len(j.values) > 0 {
			err, mine := l.write(j)
			if !mine {
				return
			}
			if err != nil {
				l.judge(j, err)
				continue
			}
			l.recovered()
		}
		if j = l.handOn(j); j == nil {
			return
		}
		if len(j.parts) == 0 {
			j = nil
		}
	}
}

// nextJob takes the next batch, or gives the storing role up.
func (l *lane) nextJob() *job {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gather.len() == 0 {
		l.storing = false
		l.rest()
		return nil
	}
	j := l.job0
	if j == nil {
		j = &job{}
	}
	l.job0 = nil
	j.batch = l.gather.take(j.batch[:0], l.i.o.BatchValues, l.i.o.BatchBytes)
	j.parts = append(j.parts[:0], part{entries: j.batch})
	return j
}

// handOn gives the first part to settling. The goroutine that stored it settles
// it itself if nobody else is settling: then another one goes on storing, and nil
// is returned, as when there is nothing left to store.
func (l *lane) handOn(j *job) *job {
	l.mu.Lock()
	l.events.stored = append(l.events.stored, j.parts[0].entries...)
	copy(j.parts, j.parts[1:])
	j.parts = j.parts[:len(j.parts)-1]
	settle := !l.settling
	l.settling = true
	next := j
	if len(j.parts) == 0 {
		l.recycle(j)
		next = nil
	}
	more := next != nil || l.gather.len() > 0
	if !more {
		l.storing = false
		if cap(j.batch) > keptCapacity {
			l.job0 = nil
		}
	}
	l.mu.Unlock()
	switch {
	case settle && more:
		go l.store(next)
		l.settle()
		return nil
	case settle:
		l.settle()
		return nil
	case !more:
		return nil
	}
	return j
}

// recycle keeps a finished job for the next batch unless a hung write may still
// read it, or it has grown large. l.mu is held.
func (l *lane) recycle(j *job) {
	if j.tainted || cap(j.batch) > l.i.o.BatchValues {
		l.job0 = nil
		return
	}
	clear(j.batch)
	clear(j.values)
	l.job0 = j
}

// collect gathers the values of a part that have to be stored.
func (j *job) collect(p *part) {
	if j.tainted {
		j.values = nil
	}
	j.values = j.values[:0]
	for _, e := range p.entries {
		if e.refusal != 0 || e.clear {
			continue
		}
		if j.tainted {
			e.copyValue()
		}
		j.values = append(j.values, e.v)
	}
}

// at returns the entry whose value was the n-th of the write.
func (p *part) at(n int) *entry {
	for _, e := range p.entries {
		if e.refusal != 0 || e.clear {
			continue
		}
		if n == 0 {
			return e
		}
		n--
	}
	return nil
}

// doubt notes that a write of the part failed in a way that may have stored it, or
// may yet: it was given up on, or the store broke while it was out.
func (p *part) doubt() {
	for _, e := range p.entries {
		if e.refusal == 0 && !e.clear {
			e.kept = MaybeStored
		}
	}
}

// judge decides what a failed write means for the first part. Refused entries
// stay in it, so that their outcomes keep the lane's order.
func (l *lane) judge(j *job, err error) {
	p := &j.parts[0]
	var one *historian.ValueError
	unavailable := errors.Is(err, historian.ErrUnavailable)
	late := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	j.tainted = j.tainted || late
	switch {
	case errors.As(err, &one) && one.Index >= 0 && one.Index < len(j.values):
		p.at(one.Index).refuse(Unstorable, one.Err.Error())
		return
	case !unavailable && !late && len(j.values) > 1:
		// The error names no value, yet may be one's fault: the halves will tell.
		j.split(2)
		return
	case !unavailable && !late && l.check() == nil:
		// Alone, and the historian says that it could store a value: not this one.
		// What the error says may be for the log only.
		e := p.at(0)
		e.refuse(Unstorable, "the historian cannot store this value; the broker's log says why")
		l.i.o.Logger.Warn("embedded broker: historian cannot store a value", "workspace", l.workspace, "topic", e.v.Topic, "client", e.v.Publisher, "error", err)
		return
	}
	l.i.metrics.StoreRetries.Inc()
	p.doubt()
	now := l.i.now()
	left, spent := 0, false
	detail := "the historian could not store it"
	if unavailable || late {
		detail = err.Error()
	}
	for _, e := range p.entries {
		switch {
		case e.refusal != 0 || e.clear:
		case now-e.admitted >= l.i.o.StoreBudget:
			e.refuse(HistorianUnavailable, detail)
			spent = true
		default:
			left++
		}
	}
	if l.failures == 0 {
		l.i.o.Logger.Warn("embedded broker: historian takes no writes, retrying", "workspace", l.workspace, "values", len(j.values), "error", historian.Details(err))
	}
	if spent {
		l.i.metrics.StoreUnavailable.Inc()
	}
	wait := backoffAfter(l.failures)
	l.failures++
	if left == 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.returned:
	case <-l.ctx.Done():
	}
}

// check asks the historian whether it could store a value.
func (l *lane) check() error {
	ctx, cancel := context.WithTimeout(l.ctx, l.i.o.HungWrite)
	defer cancel()
	return l.i.o.Historian.Check(ctx)
}

// recovered notes that a write succeeded.
func (l *lane) recovered() {
	if l.failures > 0 {
		l.failures = 0
		l.i.o.Logger.Info("embedded broker: historian takes writes again", "workspace", l.workspace)
	}
}

// split cuts the first part into at most n pieces, in order.
func (j *job) split(n int) {
	p := j.parts[0]
	size := max(1, (len(p.entries)+n-1)/n)
	var pieces []part
	for rest := p.entries; len(rest) > 0; rest = rest[min(size, len(rest)):] {
		pieces = append(pieces, part{entries: rest[:min(size, len(rest))], hung: p.hung})
	}
	j.parts = append(pieces, j.parts[1:]...)
}

func refuseAll(entries []*entry, r Refusal, detail string) {
	for _, e := range entries {
		if e.refusal == 0 {
			e.refuse(r, detail)
		}
	}
}
