package mesh

import "fmt"

// question handles the numbered frames that are not values.
func (r *reader) question(k kind, payload []byte, own bool) error {
	p, pr := r.peer, r.pair
	switch k {
	case kindShare:
		s, err := decodeShare(payload)
		if err != nil {
			return err
		}
		v := r.decode(s.record, own)
		if v == nil { // another member could not read it either
			p.answer(pr, kindSettled, appendSettled(nil, s.call, ShareDiscarded))
			return nil
		}
		p.m.o.Handler.Share(r.from, Share{Value: v, Flags: s.flags, Key: s.key, Session: s.session}, once(func(o ShareOutcome) {
			p.answer(pr, kindSettled, appendSettled(nil, s.call, o))
		}))
	case kindSettled:
		call, o, err := decodeSettled(payload)
		if err != nil {
			return err
		}
		var es effects
		p.mu.Lock()
		pr.settle(call, o, &es)
		p.mu.Unlock()
		es.run(p.m)
	case kindRelease:
		call, release, err := decodeRelease(payload)
		if err != nil {
			return err
		}
		p.m.o.Handler.Release(r.from, release, once(func(released Released) {
			p.answer(pr, kindReleased, appendReleased(nil, call, released))
		}))
	case kindReleased:
		call, released, err := decodeReleased(payload)
		if err != nil {
			return err
		}
		p.mu.Lock()
		if answer := pr.releases[call]; answer != nil {
			delete(pr.releases, call)
			answer <- releaseAnswer{released: released}
		}
		p.mu.Unlock()
	case kindReport:
		call, err := decodeReport(payload)
		if err != nil {
			return err
		}
		go func() {
			report := p.m.o.Report()
			if len(report) > MaxReport {
				report = nil
			}
			p.answer(pr, kindReported, appendReported(nil, call, report))
		}()
	case kindReported:
		call, report, err := decodeReported(payload)
		if err != nil {
			return err
		}
		p.mu.Lock()
		if answer := pr.reports[call]; answer != nil {
			delete(pr.reports, call)
			answer <- reportAnswer{report: append([]byte(nil), report...)}
		}
		p.mu.Unlock()
	case kindReturning:
		clientID, err := decodeReturning(payload)
		if err != nil {
			return err
		}
		p.m.o.Handler.Returning(r.from, clientID)
	default:
		return fmt.Errorf("%w: kind %d", errFrame, k)
	}
	return nil
}
