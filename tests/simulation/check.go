package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"maestrohub.io/uns/broker/topic"
)

// check holds what happened against what was promised.
func (w *world) check() {
	w.checkStored()
	for _, s := range w.subscribers {
		if s.clean {
			w.checkClean(s)
		} else {
			w.checkPersistent(s)
		}
		w.checkOrder(s)
		w.checkOnce(s)
		w.checkRevoked(s)
		w.checkFickle(s)
	}
	w.checkSleepers()
	w.checkWills()
	w.checkTakeovers()
}

// checkStored: every acknowledged value is in the historian.
func (w *world) checkStored() {
	type point struct {
		topic  string
		number string
	}
	stored := map[point]int{}
	for _, r := range w.history.Rows(workspace) {
		stored[point{r.Topic, string(r.Body)}]++
	}
	for _, p := range w.publishers {
		w.counted.Connections += p.conns
		for _, s := range p.sent {
			w.counted.Sent++
			if s.acked.IsZero() {
				if s.qos > 0 {
					w.violate("%s: %s %d was never acknowledged", p.id, s.topic, s.number)
				}
				continue
			}
			w.counted.Acked++
			if stored[point{s.topic, fmt.Sprint(s.number)}] == 0 {
				w.violate("%s: %s %d was acknowledged by %s at %s and is not in the historian", p.id, s.topic, s.number, s.by.name, w.trace.since(s.acked))
			} else {
				w.counted.Stored++
			}
		}
	}
}

// wants reports whether a subscriber's filter matches a topic below the workspace.
func (s *subscriber) wants(name string) bool { return topic.Match(s.filter, data+name) }

// checkPersistent: every value acknowledged after the SUBACK has come. Excused are, where
// the SUBACK went out without having waited for everything, values that were sent before
// it: one may be in the log from before the subscription, and its acknowledgment, which
// the store has held up since, leaves after the SUBACK (RoutesLate counts such a SUBACK).
func (w *world) checkPersistent(s *subscriber) {
	w.counted.Connections += s.conns
	if s.subscribed.IsZero() {
		w.violate("%s was never subscribed", s.id)
		return
	}
	for _, p := range w.publishers {
		came := map[int]bool{}
		for _, topic := range p.topics {
			for _, a := range s.arrivals[data+topic] {
				came[a.number] = true
			}
		}
		missing := missing{w: w, s: s, p: p}
		for _, v := range p.sent {
			switch {
			case !v.toldAfter(s.subscribed) || !s.wants(v.topic):
			case w.withheld(s, v):
			case came[v.number]:
				w.counted.Delivered++
			case s.late && v.first.Before(s.subscribed):
				w.counted.DeliveredExcused++
			default:
				w.counted.Delivered++
				missing.add(v)
			}
		}
		missing.report("were acknowledged and did not come to a persistent session")
	}
}

// toldAfter reports whether a value was acknowledged after a moment, and not before. One
// that was sent again may have been: its first acknowledgment got lost.
func (v *sending) toldAfter(moment time.Time) bool {
	return v.acked.After(moment) && (v.first.After(moment) || len(v.repeats) == 0)
}

// missing gathers values that did not come.
type missing struct {
	w    *world
	s    *subscriber
	p    *publisher
	list []*sending
}

func (m *missing) add(v *sending) { m.list = append(m.list, v) }

func (m *missing) report(what string) {
	if len(m.list) == 0 {
		return
	}
	first := m.list[0]
	m.w.violate("%s: %d values of %s %s, the first: %s %d, QoS %d, sent at %s and again %d times, acknowledged by %s at %s", m.s.id, len(m.list), m.p.id, what,
		first.topic, first.number, first.qos, m.w.trace.since(first.first), len(first.repeats), first.by.name, m.w.trace.since(first.acked))
}

// subscribeWait is for how long a SUBACK of a clean session waits for the replicas that
// are linked. One that waited that long may miss what the late ones acknowledge.
const subscribeWait = 2 * time.Second

// checkClean: every value acknowledged between the SUBACK and the end of the connection
// has come over it, if the subscriber's replica lived. Excused are values whose publisher's
// replica was not linked with the subscriber's: it may end before they are.
func (w *world) checkClean(s *subscriber) {
	w.counted.Connections += s.conns
	for _, here := range s.stays {
		late := here.answered.Sub(here.asked) >= subscribeWait
		for _, p := range w.publishers {
			came := map[int]bool{}
			for _, topic := range p.topics {
				for _, a := range here.arrivals[data+topic] {
					came[a.number] = true
				}
			}
			missing := missing{w: w, s: s, p: p}
			for _, v := range p.sent {
				// What was acknowledged just before the end may be on its way.
				if !v.toldAfter(here.from) || v.acked.After(here.to.Add(-time.Second)) || !s.wants(v.topic) || w.withheld(s, v) {
					continue
				}
				switch {
				case came[v.number]:
					w.counted.CleanRequired++
				case late || w.anyApart(v.handlers(), []*node{here.node}, here.asked.Add(-4*time.Second), here.to) || here.node.endedBetween(here.from, here.to.Add(30*time.Second)) || w.stalled(here):
					w.counted.CleanExcused++
				default:
					w.counted.CleanRequired++
					missing.add(v)
				}
			}
			missing.report(fmt.Sprintf("were acknowledged and did not come to a clean session at %s, connected from %s to %s", here.node.name, w.trace.since(here.from), w.trace.since(here.to)))
		}
	}
}

// checkOrder: first appearances of each publisher and topic are in the order of sending.
// Not asked of values that were first sent before the subscription was there; of QoS 0 over
// two connections, for nothing of it is asked for again or waited for; of one that its
// device put behind others itself, or would have if it had heard of its refusal; of one that
// was refused while others of its device were on their way, which the broker had not received
// then [MQTT-4.6.0-5]; of one that was passed over for want of permission and came when it was read again; and, live, of a publisher that moved between two
// replicas without a link, whose values wait there until there is one.
func (w *world) checkOrder(s *subscriber) {
	check := func(arrivals map[string][]arrival, from time.Time, live bool) {
		for topic, list := range arrivals {
			p := w.publisherOf(topic)
			var highest *sending
			seen := map[int]bool{}
			for i, a := range list {
				v := p.sent[a.number-1]
				first := !seen[a.number]
				seen[a.number] = true
				if highest == nil || v.number > highest.number {
					highest = v
					continue
				}
				if !first || v.first.Before(from) || v.strayed || p.qos == 0 && v.conn != highest.conn {
					continue
				}
				if p.refusalLost(v) || v.refusedUnheard(highest) || w.withheld(s, v) {
					w.counted.OrderExcused++
					continue
				}
				if live && w.anyApart(v.handlers(), append(highest.handlers(), a.node), v.first, a.at) {
					w.counted.OrderExcused++
					continue
				}
				w.violate("%s: %s %d came for the first time after %d, at %s from %s (place %d)", s.id, topic, a.number, highest.number, w.trace.since(a.at), a.node.name, i)
			}
		}
	}
	if !s.clean {
		check(s.arrivals, s.subscribed, false)
		return
	}
	for _, here := range s.stays {
		check(here.arrivals, here.from, true)
	}
}

// handlers are the replicas that may have forwarded a value: those it was sent to. One that
// acknowledged it may have known from another that it was there, and forwarded nothing.
func (v *sending) handlers() []*node {
	var all []*node
	if v.by != nil {
		all = append(all, v.by)
	}
	for _, r := range v.repeats {
		all = append(all, r.from, r.to)
	}
	return all
}

// refusedAfter is how long a value waits for the historian or the session log before it is
// refused.
const refusedAfter = 10 * time.Second

// refusalLost reports whether a value may have been refused without its device hearing of
// it: it, or one before it of its topic with which it is refused, was open for so long over
// a connection that was lost, or that one was refused over it. What came behind it and was not
// refused is before it then.
func (p *publisher) refusalLost(v *sending) bool {
	return slices.ContainsFunc(v.repeats, func(own repeat) bool {
		return slices.ContainsFunc(p.sent[:v.number], func(x *sending) bool {
			return x.topic == v.topic && (slices.ContainsFunc(x.refusals, func(r refusal) bool { return r.conn == own.conn }) ||
				slices.ContainsFunc(x.repeats, func(r repeat) bool { return r.conn == own.conn && r.until.Sub(r.since) >= refusedAfter }))
		})
	})
}

// refusedUnheard reports whether a value was refused over a connection over which another
// had been sent when its device heard of that. What the broker has of a topic it refuses
// together, which package ingest is tested for; it does not have what is on its way.
func (v *sending) refusedUnheard(other *sending) bool {
	return slices.ContainsFunc(v.refusals, func(r refusal) bool { return other.conn == r.conn && other.first.Before(r.at) })
}

// publisherOf is the publisher of a topic.
func (w *world) publisherOf(topic string) *publisher {
	for _, p := range w.publishers {
		if strings.Contains(topic, "/"+p.id+"/") {
			return p
		}
	}
	panic("nobody publishes " + topic)
}

// checkOnce: from a publisher at QoS 2 to a subscriber at QoS 2 a value comes once. The
// exceptions that are documented: its publisher had to send it again without a PUBREC
// because the replica ended between storing and recording, or because it moved, or a
// CONNECT of its from before was taken, while the two replicas were not linked.
func (w *world) checkOnce(s *subscriber) {
	if s.qos != 2 {
		return
	}
	check := func(arrivals map[string][]arrival) {
		for _, p := range w.publishers {
			if p.qos != 2 {
				continue
			}
			times := map[int][]arrival{}
			for _, topic := range p.topics {
				for _, a := range arrivals[data+topic] {
					times[a.number] = append(times[a.number], a)
				}
			}
			for number, list := range times {
				w.counted.Once++
				if len(list) == 1 {
					continue
				}
				v := p.sent[number-1]
				excused := slices.ContainsFunc(v.repeats, func(r repeat) bool {
					return r.from.endedBetween(r.since, r.until.Add(time.Second)) || p.takenApart(r.from, r.since, r.until.Add(time.Second))
				})
				if excused && len(list) <= 1+len(v.repeats) {
					w.counted.OnceExcused++
					continue
				}
				w.violate("%s: %s %d came %d times though both sides are QoS 2, at %s and %s; sent at %s, again %d times", s.id, v.topic, number, len(list),
					w.trace.since(list[0].at), w.trace.since(list[1].at), w.trace.since(v.first), len(v.repeats))
			}
		}
	}
	if !s.clean {
		check(s.arrivals)
		return
	}
	for _, here := range s.stays {
		check(here.arrivals)
	}
}

// slack is what the clocks of devices and replicas may differ by, in what they count.
const slack = 3 * time.Second

// checkWills: each will once at most, none of a device that left properly or was back in
// time, and that of each that was not.
func (w *world) checkWills() {
	rows := map[string][]string{} // their times
	for _, r := range w.history.Rows(workspace) {
		if strings.HasPrefix(r.Topic, "w/") {
			key := r.Topic + " " + string(r.Body)
			rows[key] = append(rows[key], w.trace.since(time.Unix(0, r.Timestamp)))
			w.counted.Wills++
		}
	}
	end := time.Now()
	for _, d := range w.willing {
		w.counted.Connections += d.conns
		delay := time.Duration(min(d.delay, d.expiry)) * time.Second
		for _, l := range d.lives {
			times := rows[fmt.Sprintf("w/%s %d", d.id, l.number)]
			sent := len(times)
			say := func(what string) {
				w.violate("%s: the will of CONNECT %d at %s (%s to %s, %s; back %s) was %s", d.id, l.number, l.node.name, w.trace.since(l.from), w.trace.since(l.to), l.how, w.trace.since(l.back), what)
			}
			if sent > 1 {
				say(fmt.Sprintf("sent %d times, at %v", sent, times))
				continue
			}
			until := l.calling
			if until.IsZero() {
				until = end
			}
			away := until.Sub(l.to)
			ended := l.node.endedBetween(l.to.Add(-20*time.Second), l.to.Add(30*time.Second))
			switch {
			case l.how == "properly" && !ended && !w.disturbed(l.node, l.to.Add(-5*time.Second), l.to.Add(5*time.Second)):
				w.counted.WillsForbidden++
				if sent > 0 {
					say("sent though the device left properly")
				}
			case l.how != "properly" && !l.back.IsZero() && away < delay-slack:
				w.counted.WillsForbidden++
				if sent > 0 {
					say("sent though the device was back within its delay")
				}
			case l.how != "properly" && l.back.IsZero() && away > max(delay, w.o.WillStopGrace)+2*time.Minute:
				w.counted.WillsRequired++
				if sent == 0 {
					say("not sent though the device stayed away")
				}
			}
		}
	}
}

// takenWithin is how long the broker may take to close a connection whose device has
// another: the mesh or the store tells it.
const takenWithin = 16 * time.Second

// checkTakeovers: a connection whose device is served elsewhere is closed.
func (w *world) checkTakeovers() {
	for _, o := range w.open {
		if o.taken.IsZero() || o.nc.in.lost() {
			continue
		}
		w.counted.Takeovers++
		over := o.ended
		if over.IsZero() {
			over = time.Now()
		}
		if over.Sub(o.taken) > takenWithin && !w.unheard(o.node, o.taken.Add(-takenWithin), over) {
			w.violate("%s: the connection it left open at %s is still served %v after another was accepted at %s", o.device, o.node.name, over.Sub(o.taken), w.trace.since(o.taken))
		}
	}
}
