package mesh

// pair is everything between one life of this replica and one of the peer.
type pair struct {
	local, remote uint64
	out           outbox
	in            inbox
	live          liveness
	attempt       uint64 // the highest that was admitted, at the end that does not dial

	calls    uint64
	releases map[uint64]chan releaseAnswer
	reports  map[uint64]chan reportAnswer
	shares   map[uint64]func(ShareOutcome)
}

type releaseAnswer struct {
	released Released
	err      error
}

type reportAnswer struct {
	report []byte
	err    error
}

// effects gather under a lock what is to be done without it. The caller of an answer or of
// SendShare may hold a lock all the same: what they call neither waits nor takes a lock of a client.
type effects struct {
	waits   []*waiter
	calls   []func()
	changed bool // LinksChanged
}

func (es *effects) run(m *Mesh) {
	for _, w := range es.waits {
		w.arrive()
	}
	for _, call := range es.calls {
		call()
	}
	if es.changed {
		m.o.Handler.LinksChanged()
	}
}

// fail answers all questions that wait.
func (pr *pair) fail(err error) {
	for call, answer := range pr.reports {
		answer <- reportAnswer{err: err}
		delete(pr.reports, call)
	}
	for call, answer := range pr.releases {
		answer <- releaseAnswer{err: err}
		delete(pr.releases, call)
	}
}

// settle tells the sender of a share what became of it.
func (pr *pair) settle(call uint64, o ShareOutcome, es *effects) {
	if settled := pr.shares[call]; settled != nil {
		delete(pr.shares, call)
		es.calls = append(es.calls, func() { settled(o) })
	}
}
