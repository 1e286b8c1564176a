package ingest

import (
	"errors"
	"time"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/value"
)

// appended is the result of a log append.
type appended struct {
	// aborted: Stop or a fence ended it, and what became of it is not known.
	aborted bool
	// refused are those of the batch that the log can never hold.
	refused []*entry
}

const (
	// logBatchBytes bounds the encoded records of one append.
	logBatchBytes = 4 << 20
	// retainedBatch bounds the values of one retained put.
	retainedBatch = state.MaxAppend
)

// nextWork puts what waits for the stores in flight, if nothing of its kind is.
func (s *step4) nextWork() (w work) {
	if s.lane.ctx.Err() != nil {
		return work{}
	}
	if len(s.logBatch) == 0 && len(s.logNext) > 0 {
		n, bytes := 0, 0
		for _, e := range s.logNext {
			if n > 0 && (n == state.MaxAppend || bytes+e.size > logBatchBytes) {
				break
			}
			e.log = flying
			bytes += e.size
			n++
		}
		s.logBatch = append(s.logBatch, s.logNext[:n]...)
		s.logNext = dropFront(s.logNext, n)
		w.log = s.logBatch
	}
	if len(s.retBatch) == 0 && len(s.retNext) > 0 {
		n := min(len(s.retNext), retainedBatch)
		for _, e := range s.retNext[:n] {
			e.retained = flying
		}
		s.retBatch = append(s.retBatch, s.retNext[:n]...)
		s.retNext = dropFront(s.retNext, n)
		w.retained = s.retBatch
	}
	return w
}

// logLanded takes the result of the append in flight.
func (s *step4) logLanded(a *appended) {
	if !a.aborted {
		for _, e := range a.refused {
			e.log = unneeded
			if e.refusal == 0 && !e.out {
				e.refuse(LogRefused, "larger than the workspace's session log can hold")
			}
		}
		n := 0
		for _, e := range s.logBatch {
			if e.log == flying {
				e.log = landed
				n++
			}
		}
		s.lane.i.metrics.SessionLogAppended.Add(float64(n))
		s.lane.i.metrics.SessionLogAppendsReordered.Add(float64(s.landings.note(s.logBatch, s.oldest())))
		s.proof.logged = s.proof.logged || n > 0
	}
	s.logBatch = reuse(s.logBatch)
}

// retainedLanded takes the result of the put in flight, which has none but
// success: it is repeated until then.
func (s *step4) retainedLanded() {
	for _, e := range s.retBatch {
		e.retained = landed
	}
	s.retBatch = reuse(s.retBatch)
}

// appendLog appends a batch to the workspace's session log, again and again until
// the outcome is definite, however long that takes: a batch given up on could
// land behind the next one.
func (l *lane) appendLog(batch []*entry) *appended {
	start := time.Now()
	a := &appended{}
	l.records = l.records[:0]
	l.ends = l.ends[:0]
	for _, e := range batch {
		l.records = e.v.AppendRecord(l.records)
		l.ends = append(l.ends, len(l.records))
	}
	records := make([][]byte, len(batch))
	from := 0
	for n, to := range l.ends {
		records[n] = l.records[from:to:to]
		from = to
	}
	l.appendRecords(batch, records, a)
	l.i.metrics.SessionLogAppendSeconds.Observe(time.Since(start).Seconds())
	return a
}

func (l *lane) appendRecords(batch []*entry, records [][]byte, a *appended) {
	for failures := 0; !a.aborted; failures++ {
		err := l.openLog()
		if !l.mayAct() {
			l.abandonLog(a)
			return
		}
		if err == nil {
			_, err = l.log.Append(l.ctx, records)
		}
		switch {
		case err == nil:
			if failures > 0 {
				l.i.o.Logger.Info("embedded broker: session log takes values again", "workspace", l.workspace)
			}
			return
		case l.ctx.Err() != nil:
			l.abandonLog(a)
			return
		case errors.Is(err, state.ErrQuota) && l.log != nil:
			// One record is too large for the log; the halves tell which.
			if len(batch) == 1 {
				a.refused = append(a.refused, batch[0])
				return
			}
			half := len(batch) / 2
			l.appendRecords(batch[:half], records[:half], a)
			l.appendRecords(batch[half:], records[half:], a)
			return
		}
		if failures == 0 {
			l.i.o.Logger.Warn("embedded broker: session log does not take values, retrying", "workspace", l.workspace, "values", len(batch), "error", err)
		}
		l.pause(failures)
	}
}

// openLog opens the workspace's session log once, when the lane before has done
// with it.
func (l *lane) openLog() error {
	if l.log != nil {
		return nil
	}
	if l.appendable != nil {
		select {
		case <-l.appendable:
			l.appendable = nil
		case <-l.ctx.Done():
			return l.ctx.Err()
		}
	}
	log, err := l.i.o.Logs.Log(l.ctx, l.logID())
	if err != nil {
		return err
	}
	l.log = log
	return nil
}

// logID is the name of the workspace's session log.
func (l *lane) logID() string {
	if ws, ok := l.i.o.Model().Workspace(l.workspace); ok {
		return ws.ID
	}
	return l.workspace
}

// putRetained puts a batch into the retained store, again and again until of each
// topic the newest is there, or a newer one: the older of the batch need no put of
// their own.
func (l *lane) putRetained(batch []*entry) {
	start := time.Now()
	values := make([]*value.Value, len(batch))
	for n, e := range batch {
		values[n] = e.v
	}
	for failures := 0; l.ctx.Err() == nil && l.mayAct(); failures++ {
		err := l.i.o.Retained.Put(l.ctx, values)
		if err == nil {
			if failures > 0 {
				l.i.o.Logger.Info("embedded broker: retained store takes values again", "workspace", l.workspace)
			}
			break
		}
		if failures == 0 {
			l.i.o.Logger.Warn("embedded broker: retained store does not take values, retrying", "workspace", l.workspace, "values", len(values), "error", err)
		}
		l.pause(failures)
	}
	l.i.metrics.RetainedPutSeconds.Observe(time.Since(start).Seconds())
}

// pause waits after the n-th failure in a row, or until Stop gives up.
func (l *lane) pause(failures int) {
	timer := time.NewTimer(backoffAfter(failures))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.ctx.Done():
	}
}
