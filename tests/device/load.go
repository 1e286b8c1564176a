package device

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/broker/mqtt"
)

// LoadOptions say what devices to start, and where.
type LoadOptions struct {
	// Name is part of every client id and topic, unlike any other load's.
	Name         string
	User, Secret string
	// Address says where the next connection goes; all go to the same one, behind
	// which any replica may be.
	Address func() string
	// Inbox and Data are the names a topic is published to and delivered under.
	Inbox, Data func(topic string) string
	// History returns the stored payloads of a topic.
	History func(t testing.TB, topic string) []string
	// Every is the time between two values of a publisher. 0: 20 ms.
	Every time.Duration
	// Wills: every device declares one, on its client id below the topic
	// <Name>/wills, which a further session listens to.
	Wills bool
}

// Load is publishers of both QoS and both versions, and persistent sessions that
// want all they publish, each going on wherever it can.
type Load struct {
	Publishers  []*Publisher
	Subscribers []*Subscriber

	o           LoadOptions
	witness     *Subscriber // of the wills; nil without
	stopSending context.CancelFunc
	stop        context.CancelFunc
	sent, taken chan error
}

// kinds are what there is one publisher and one session of.
var kinds = []struct {
	version mqtt.Version
	qos     byte
}{{mqtt.V5, 1}, {mqtt.V5, 2}, {mqtt.V311, 1}, {mqtt.V311, 2}}

// pings is when a session asks whether its silent broker is there.
const pings = 5 * time.Second

// StartLoad starts the devices and waits until values flow from each to each. What
// a failed test leaves is ended with it.
func StartLoad(t testing.TB, o LoadOptions) *Load {
	t.Helper()
	if o.Every == 0 {
		o.Every = 20 * time.Millisecond
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	ctx, stop := context.WithCancel(context.Background())
	sending, stopSending := context.WithCancel(ctx)
	l := &Load{o: o, stop: stop, stopSending: stopSending}
	t.Cleanup(func() {
		stopSending()
		stop()
	})
	for i, k := range kinds {
		s := &Subscriber{Filter: o.Data(o.Name + "/values/#"), QoS: k.qos, Pings: pings, Changed: make(chan struct{}, 1)}
		l.configure(&s.Device, "subscriber", i, k.version, seed)
		l.Subscribers = append(l.Subscribers, s)
		p := &Publisher{Name: o.Inbox(l.topic(i)), QoS: k.qos, Window: 10, Every: o.Every}
		l.configure(&p.Device, "publisher", i, k.version, seed)
		l.Publishers = append(l.Publishers, p)
	}
	listening := append([]*Subscriber(nil), l.Subscribers...)
	if o.Wills {
		l.witness = &Subscriber{Filter: o.Data(o.Name + "/wills/#"), QoS: 1, Pings: pings, Changed: make(chan struct{}, 1)}
		l.configure(&l.witness.Device, "witness", 0, mqtt.V5, seed)
		l.witness.Will = nil
		listening = append(listening, l.witness)
	}
	calm := make(chan struct{})
	close(calm)
	l.sent, l.taken = make(chan error, len(l.Publishers)), make(chan error, len(listening))
	for _, s := range listening {
		go func() { l.taken <- s.Run(ctx, calm) }()
	}
	for _, s := range listening {
		select {
		case <-s.Changed:
		case err := <-l.taken:
			t.Fatal(err)
		case <-time.After(2 * time.Minute):
			t.Fatalf("%s is not subscribed after 2 minutes: %+v", s.ID, s.Events())
		}
	}
	for _, p := range l.Publishers {
		go func() { l.sent <- p.Run(sending) }()
	}
	l.Flows(t, time.Now())
	return l
}

func (l *Load) topic(i int) string { return fmt.Sprintf("%s/values/%d", l.o.Name, i) }

func (l *Load) configure(d *Device, role string, i int, version mqtt.Version, seed uint64) {
	d.ID = fmt.Sprintf("%s-%s-%d", l.o.Name, role, i)
	d.User, d.Secret, d.Version, d.Address = l.o.User, l.o.Secret, version, l.o.Address
	d.Random, d.Fresh, d.Roams = rand.New(rand.NewPCG(seed, uint64(i)+uint64(len(role))<<8)), true, true
	if l.o.Wills {
		d.Will = &mqtt.Will{QoS: 1, Topic: l.o.Inbox(l.o.Name + "/wills/" + d.ID), Payload: []byte("1")}
	}
}

// Flows waits until every publisher was acknowledged and every session took a value
// after an instant, and returns how long after it the last of them was.
func (l *Load) Flows(t testing.TB, since time.Time) time.Duration {
	t.Helper()
	const within = 3 * time.Minute
	deadline := time.Now().Add(within)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		last, waiting := l.last(since)
		if waiting == "" {
			return last.Sub(since)
		}
		select {
		case err := <-l.sent:
			t.Fatalf("a publisher ended: %v", err)
		case err := <-l.taken:
			t.Fatalf("a subscriber ended: %v", err)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v after the event, values do not flow: %s", within, waiting)
		}
	}
	return 0
}

// last is when the last device first had what Flows waits for, or who has not.
func (l *Load) last(since time.Time) (last time.Time, waiting string) {
	for _, p := range l.Publishers {
		at := time.Time{}
		for _, a := range p.Acked() {
			if a.After(since) && (at.IsZero() || a.Before(at)) {
				at = a
			}
		}
		if at.IsZero() {
			return last, p.ID + " is not acknowledged"
		}
		last = latest(last, at)
	}
	for _, s := range l.Subscribers {
		at := time.Time{}
		for i := range l.Publishers {
			for _, a := range s.Arrivals(l.o.Data(l.topic(i))) {
				if a.At.After(since) {
					if at.IsZero() || a.At.Before(at) {
						at = a.At
					}
					break
				}
			}
		}
		if at.IsZero() {
			return last, s.ID + " gets nothing"
		}
		last = latest(last, at)
	}
	return last, ""
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Result is what Finish found.
type Result struct {
	Acknowledged int // values
	Repeated     int // receptions beyond the first of a value
	Refused      int // publishes refused and sent again
	Lost         int // connections
}

func (r Result) String() string {
	return fmt.Sprintf("%d values acknowledged, none lost, %d repeated, %d refused first, %d connections lost", r.Acknowledged, r.Repeated, r.Refused, r.Lost)
}

// Finish ends the sending, waits until every session has everything, and holds every
// record against every other: nothing acknowledged is missing from a session or from
// history, and no will of a device that came back was sent.
func (l *Load) Finish(t testing.TB) Result {
	t.Helper()
	l.stopSending()
	for range l.Publishers {
		if err := <-l.sent; err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.Now().Add(2 * time.Minute)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var problems []string
	for range tick.C {
		if problems = l.problems(); len(problems) == 0 || time.Now().After(deadline) {
			break
		}
	}
	for _, p := range problems {
		t.Error(p)
	}
	var r Result
	for i, p := range l.Publishers {
		r.Acknowledged += len(p.Acked())
		r.Refused += p.Refused()
		r.Lost += lostConnections(&p.Device)
		for _, s := range l.Subscribers {
			_, repeated, _ := Check(s, l.o.Data(l.topic(i)), p)
			r.Repeated += repeated
		}
		l.checkHistory(t, i)
	}
	for _, s := range l.Subscribers {
		r.Lost += lostConnections(&s.Device)
	}
	if l.witness != nil {
		for _, d := range l.devices() {
			if wills := l.witness.Arrivals(l.o.Data(l.o.Name + "/wills/" + d.ID)); len(wills) > 0 {
				t.Errorf("the will of %s, which came back, was sent %d times, first at %v; what happened to it: %+v", d.ID, len(wills), wills[0].At, d.Events())
			}
		}
	}
	l.stop()
	for range cap(l.taken) {
		if err := <-l.taken; err != nil {
			t.Error(err)
		}
	}
	return r
}

func (l *Load) problems() (problems []string) {
	for _, s := range l.Subscribers {
		for i, p := range l.Publishers {
			found, _, _ := Check(s, l.o.Data(l.topic(i)), p)
			problems = append(problems, found...)
		}
	}
	return problems
}

func (l *Load) devices() (all []*Device) {
	for _, p := range l.Publishers {
		all = append(all, &p.Device)
	}
	for _, s := range l.Subscribers {
		all = append(all, &s.Device)
	}
	return all
}

// Lost returns how many connections were lost after an instant.
func (l *Load) Lost(since time.Time) (n int) {
	for _, d := range l.devices() {
		for _, e := range d.Events() {
			if e.What == "lost" && e.At.After(since) {
				n++
			}
		}
	}
	return n
}

func lostConnections(d *Device) (n int) {
	for _, e := range d.Events() {
		if e.What == "lost" {
			n++
		}
	}
	return n
}

func (l *Load) checkHistory(t testing.TB, i int) {
	t.Helper()
	stored := map[string]bool{}
	for _, payload := range l.o.History(t, l.topic(i)) {
		stored[strings.TrimSpace(payload)] = true
	}
	acked, missing := l.Publishers[i].Acked(), 0
	for n := range acked {
		if !stored[fmt.Sprint(n)] {
			missing++
		}
	}
	if missing > 0 {
		t.Errorf("%s: %d of %d acknowledged values are not in history", l.Publishers[i].ID, missing, len(acked))
	}
}
