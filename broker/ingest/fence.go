package ingest

// Fence ends this life of the ingest: what is in the lanes gets Shed, and nothing
// of it has an effect any more; what is published gets Shed at once. Values may have
// been stored, and an append that was out may have landed, but nothing of it lands
// behind what the next life appends. Fence does not wait; the outcomes follow at once.
//
// Options.MayAct turns false at the same moment or before. A lane that meets that
// first ends by itself, and takes nothing while it is so.
func (i *Ingest) Fence() {
	i.mu.Lock()
	i.fenced.Store(true)
	i.mu.Unlock()
	i.lanes.Range(func(_, l any) bool {
		l.(*lane).end()
		return true
	})
}

// Serve opens the door again after a Fence, with lanes that know nothing of those
// before. The connections of the life before must be closed: a publish of one that
// comes now is taken.
func (i *Ingest) Serve() {
	i.mu.Lock()
	i.fenced.Store(false)
	i.mu.Unlock()
}

// Outstanding is how many values are on their way between Publish and the end of
// step 4: what a Stop has still to settle.
func (i *Ingest) Outstanding() int {
	return i.sum(func(l *lane) int { return l.count })
}

// serves reports whether a value may be taken.
func (i *Ingest) serves() bool {
	return !i.fenced.Load() && (i.o.MayAct == nil || i.o.MayAct())
}

// closedBy says why no lane takes a value.
func (i *Ingest) closedBy() string {
	if i.serves() {
		return stopping
	}
	return fenced
}

const (
	stopping = "this replica is stopping"
	fenced   = "this replica may not serve now"
)

// mayAct is asked immediately before every effect that leaves. A lane that may not
// act never may again. MayAct is read before over: it may already speak of
// the next life, in which over is set.
func (l *lane) mayAct() bool {
	if may := l.i.o.MayAct; may != nil && !may() {
		l.end()
		return false
	}
	return !l.over.Load()
}

// end is what a fence does to a lane. l.mu is not held.
func (l *lane) end() {
	if l.over.Swap(true) {
		return
	}
	l.cancel()
	l.close()
	l.abandon()
}

// shed decides everything that is not decided.
func (s *step4) shed() {
	for _, e := range s.pending {
		if e.refusal == 0 {
			if e.qos == 0 && !e.alive && !e.clear {
				s.lane.i.metrics.LiveMirrorDropped.Inc() // stored, and nobody sends it again
			}
			e.refuse(Shed, "this replica stopped serving before the value was settled")
		}
	}
	s.logNext, s.retNext = nil, nil
}

// abandoned is a log that can give up the append that is out, so that nothing of
// it lands behind a later one.
type abandoned interface {
	Abandon()
}

// abandonLog gives up a batch whose outcome is not known.
func (l *lane) abandonLog(a *appended) {
	a.aborted = true
	if log, ok := l.log.(abandoned); ok {
		log.Abandon()
	}
}
