package ingest

import (
	"cmp"
	"context"
	"time"
)

// A write that does not return within HungWrite is given up on: its context is
// cancelled, the goroutine in it is left to return whenever it does, and the
// watchdog's goroutine goes on with the batch, on copies of the values. At most
// hungInFlight such writes exist per lane; beyond that the historian counts as
// unavailable until one returns. A write that hung and lands after all stores
// rows that the next write of the same values finds there (the row key).
//
// The write itself runs in the storing goroutine and the timer is not reset for
// each batch, so the good case pays nothing for this.

// write appends the job's values. mine is false if the watchdog took the job over
// meanwhile: then the caller owns nothing any more.
func (l *lane) write(j *job) (err error, mine bool) {
	l.mu.Lock()
	if err := l.ctx.Err(); err != nil || l.hung >= hungInFlight {
		l.mu.Unlock()
		return cmp.Or(err, errAllHung), true
	}
	l.writeID++
	id := l.writeID
	l.writing = j
	l.writeStart = l.i.now()
	ctx, values := l.writeCtx, j.values
	l.watch(l.i.o.HungWrite)
	l.mu.Unlock()

	// Until it is known whose the job is, nothing of it may be touched.
	start := time.Now()
	err = l.i.o.Historian.Append(ctx, values)
	l.i.metrics.StoreAppendSeconds.Observe(time.Since(start).Seconds())
	l.i.metrics.StoreBatchValues.Observe(float64(len(values)))

	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writeID != id {
		l.hung--
		select {
		case l.returned <- struct{}{}:
		default:
		}
		return nil, false
	}
	l.writing = nil
	return err, true
}

// watch arms the watchdog unless it is. l.mu is held.
func (l *lane) watch(after time.Duration) {
	if l.watching {
		return
	}
	l.watching = true
	if l.watchdog == nil {
		l.watchdog = time.AfterFunc(after, l.bark)
		return
	}
	l.watchdog.Reset(after)
}

// bark looks whether the current write hangs.
func (l *lane) bark() {
	l.mu.Lock()
	l.watching = false
	j := l.writing
	if j == nil {
		l.mu.Unlock()
		return
	}
	if left := l.writeStart + l.i.o.HungWrite - l.i.now(); left > 0 {
		l.watch(left)
		l.mu.Unlock()
		return
	}
	l.giveUpWrite()
	hung := l.hung
	l.mu.Unlock()

	p := &j.parts[0]
	p.hung++
	l.i.metrics.StoreHungWrites.Inc()
	l.i.o.Logger.Warn("embedded broker: historian write hangs, trying again", "workspace", l.workspace,
		"values", len(j.values), "after", l.i.o.HungWrite, "hung_writes", hung)
	if p.hung >= l.i.o.QuarantineAfter {
		l.quarantine(p)
	} else {
		j.split(hungPieces)
	}
	l.store(j)
}

// giveUpWrite takes the batch from the goroutine that writes it. l.mu is held.
func (l *lane) giveUpWrite() {
	j := l.writing
	l.writing = nil
	l.writeID++
	l.hung++
	l.writeCancel()
	l.writeCtx, l.writeCancel = context.WithCancel(l.ctx)
	j.tainted = true
	j.parts[0].doubt()
}

// quarantine gives up on the values of a part: each of its writes hung. They are
// refused and named, so that whoever looks for them knows what was not stored.
func (l *lane) quarantine(p *part) {
	n := 0
	var first *entry
	for _, e := range p.entries {
		if e.refusal == 0 && !e.clear {
			e.refuse(HistorianQuarantined, "every write of this value hung")
			if first == nil {
				first = e
			}
			n++
		}
	}
	if first == nil {
		return
	}
	l.i.metrics.Quarantined.Add(float64(n))
	l.i.o.Logger.Error("embedded broker: values given up on after repeated hung writes", "workspace", l.workspace,
		"values", n, "hung_writes", p.hung, "first_topic", first.v.Topic, "first_client", first.v.Publisher)
}
