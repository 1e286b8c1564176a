package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/device"
)

// Options say what fleet to start.
type Options struct {
	// Name is part of every client id and topic: no other fleet may have it.
	Name string
	// User and Secret are those of the API client all devices sign in as.
	User, Secret string
	// Inbox is what names devices publish to begin with, Data what live copies do:
	// "mHv1.0/<workspace>/_ingress/<user>/" and "mHv1.0/<workspace>/".
	Inbox, Data string
	// Address says where the next connection of the device with that number goes, on
	// its attempt'th attempt.
	Address func(device, attempt int) string
	// Dial opens a connection to an address. nil: TCP.
	Dial func(address string) (net.Conn, error)
	// Every is the time between two values of a publisher; 0: 10 ms.
	Every time.Duration
	// Pings is Subscriber.Pings of every session.
	Pings time.Duration
	// Timestamps: every value carries the time it was first sent at, so that one that is
	// sent again is stored once.
	Timestamps bool
	// Live adds sessions that end with their connection, which may miss what comes while
	// they have none.
	Live bool
	// Wills: every device declares a Last Will, and a session listens to all of them; a
	// further device is there to leave.
	Wills bool
	// Seed makes two fleets alike.
	Seed uint64
}

// Fleet is devices that are at work. Its methods are for one goroutine.
type Fleet struct {
	Publishers  []*device.Publisher
	Subscribers []*device.Subscriber
	// Live are the clean sessions, Witness is the one that listens to wills, Leaver the
	// device that leaves; none without the options.
	Live            []*device.Subscriber
	Witness, Leaver *device.Subscriber

	o           Options
	begun       time.Time
	leaving     leaving
	stopSending context.CancelFunc
	stop        context.CancelFunc
	working     sync.WaitGroup // every device's goroutine
	sent        chan error
	taken       chan error
}

// each of a fleet is one of every kind.
var kinds = []struct {
	version mqtt.Version
	qos     byte
}{{mqtt.V5, 1}, {mqtt.V5, 2}, {mqtt.V311, 1}, {mqtt.V311, 2}}

// Start starts the devices and returns once every session is subscribed. One that fails
// leaves no session.
func Start(ctx context.Context, o Options) (*Fleet, error) {
	if o.Every == 0 {
		o.Every = 10 * time.Millisecond
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	sending, stopSending := context.WithCancel(running)
	f := &Fleet{o: o, begun: time.Now(), stop: stop, stopSending: stopSending, sent: make(chan error, len(kinds)), taken: make(chan error, 2*len(kinds)+2)}
	calm := make(chan struct{})
	close(calm)
	for i, k := range kinds {
		s := f.subscriber(k.qos)
		f.configure(&s.Device, fmt.Sprintf("%s-subscriber-%d", o.Name, i), i, i, k.version)
		f.Subscribers = append(f.Subscribers, s)
		p := &device.Publisher{Name: o.Inbox + f.Topic(i), QoS: k.qos, Window: 10, Every: o.Every}
		if o.Timestamps {
			p.Payload = f.envelope()
		}
		f.configure(&p.Device, fmt.Sprintf("%s-publisher-%d", o.Name, i), len(kinds)+i, i+1, k.version)
		f.Publishers = append(f.Publishers, p)
	}
	f.further()
	for _, s := range f.listeners() {
		f.working.Go(func() { f.taken <- s.Run(running, calm) })
	}
	for _, s := range f.listeners() {
		select {
		case <-s.Changed:
		case err := <-f.taken:
			return nil, f.giveUp(err)
		case <-ctx.Done():
			return nil, f.giveUp(fmt.Errorf("start %s: %s is not subscribed%s: %w", o.Name, s.ID, history(&s.Device, f.begun), ctx.Err()))
		}
	}
	for _, p := range f.Publishers {
		f.working.Go(func() { f.sent <- p.Run(sending) })
	}
	return f, nil
}

// giveUp ends what was started and returns why, with the sessions that are left.
func (f *Fleet) giveUp(why error) error {
	f.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return errors.Join(why, f.EndSessions(ctx))
}

// configure makes a device that starts at a home and roams from there.
func (f *Fleet) configure(d *device.Device, id string, number, home int, version mqtt.Version) {
	attempt := 0
	d.ID, d.User, d.Secret, d.Version, d.Dial = id, f.o.User, f.o.Secret, version, f.o.Dial
	if f.o.Wills {
		d.Will = &mqtt.Will{QoS: 1, Topic: f.o.Inbox + f.willTopic(id), Payload: []byte("1")}
	}
	d.Random, d.Fresh, d.Roams = rand.New(rand.NewPCG(f.o.Seed, uint64(number))), true, true
	d.Address = func() string {
		attempt++
		return f.o.Address(home, attempt-1)
	}
}

// Topic is what publisher i publishes on, below inbox or data.
func (f *Fleet) Topic(i int) string { return fmt.Sprintf("%s/%d", f.o.Name, i) }

// Received is what publisher i's values come on.
func (f *Fleet) Received(i int) string { return f.o.Data + f.Topic(i) }

// Close ends every device at once; for a fleet that is given up.
func (f *Fleet) Close() {
	f.stopSending()
	f.stop()
}

// Flow is when values flowed again.
type Flow struct {
	At time.Time // the last device's
	// Missing says which device is not there yet; "" if all are.
	Missing string
	// Slowest says, of every device, when it was, and what happened to its connection.
	Slowest []string
}

// Flows says when, after an instant, every publisher had been acknowledged and every
// session had received again.
func (f *Fleet) Flows(since time.Time) Flow {
	var flow Flow
	note := func(d *device.Device, what string, at time.Time) {
		line := fmt.Sprintf("%s %s after %v", d.ID, what, at.Sub(since).Round(time.Millisecond))
		if at.IsZero() {
			line = d.ID + " is not " + what + " yet"
			flow.Missing = line + history(d, since)
		}
		if at.After(flow.At) {
			flow.At = at
		}
		flow.Slowest = append(flow.Slowest, line+history(d, since))
	}
	for _, p := range f.Publishers {
		note(&p.Device, "acknowledged", firstAfter(since, p.Acked()))
	}
	for _, s := range f.Subscribers {
		note(&s.Device, "reached", f.firstArrival(s, since))
	}
	return flow
}

// firstArrival returns when a subscriber first took any value after an instant.
func (f *Fleet) firstArrival(s *device.Subscriber, since time.Time) (first time.Time) {
	for i := range f.Publishers {
		for _, a := range s.Arrivals(f.Received(i)) {
			if a.At.After(since) {
				if first.IsZero() || a.At.Before(first) {
					first = a.At
				}
				break
			}
		}
	}
	return first
}

func firstAfter(since time.Time, acked map[int]time.Time) (first time.Time) {
	for _, at := range acked {
		if at.After(since) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// history is what happened to a device's connections since then.
func history(d *device.Device, since time.Time) string {
	var b strings.Builder
	for _, e := range d.Events() {
		if e.At.After(since.Add(-time.Second)) {
			fmt.Fprintf(&b, "; %+.3f s %s %s %v", e.At.Sub(since).Seconds(), e.What, e.Address, e.Code)
		}
	}
	return b.String()
}

// Events returns what happened to all devices after an instant.
func (f *Fleet) Events(since time.Time, what string) (events []device.Event) {
	for _, d := range f.Devices() {
		for _, e := range d.Events() {
			if e.What == what && e.At.After(since) {
				events = append(events, e)
			}
		}
	}
	return events
}

// Devices are the publishers and then all who listen.
func (f *Fleet) Devices() (all []*device.Device) {
	for _, p := range f.Publishers {
		all = append(all, &p.Device)
	}
	for _, s := range f.listeners() {
		all = append(all, &s.Device)
	}
	return all
}

// Acked is how many values are acknowledged so far.
func (f *Fleet) Acked() (n int) {
	for _, p := range f.Publishers {
		n += len(p.Acked())
	}
	return n
}

// settling is how long what is owed may take after the last publish.
const settling = time.Minute

// Finish ends the publishing and all devices, and says what became of every value.
// stored returns the values that the historian has of a topic, as they were published.
// An error is a device that failed by itself; what is wrong with the broker is in the
// report.
func (f *Fleet) Finish(ctx context.Context, stored func(ctx context.Context, topic string) (map[string]bool, error)) (*Report, error) {
	defer f.Close()
	f.stopSending()
	var failed error
	for range f.Publishers {
		select {
		case err := <-f.sent:
			failed = errors.Join(failed, err)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if failed != nil {
		return nil, failed
	}
	r := &Report{Sessions: len(f.Subscribers)}
	deadline := time.NewTimer(settling)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for over := false; ; {
		if r.Problems = f.check(); len(r.Problems) == 0 || over {
			break
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			over = true
		case err := <-f.taken:
			return nil, fmt.Errorf("a subscriber ended: %w", err)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	f.stop()
	for range f.listeners() {
		select {
		case err := <-f.taken:
			failed = errors.Join(failed, err)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	for i, p := range f.Publishers {
		acked := p.Acked()
		r.Acknowledged += len(acked)
		r.Refused += p.Refused()
		for _, s := range f.Subscribers {
			_, again, excused := device.Check(s, f.Received(i), p)
			r.Again, r.Excused = r.Again+again, r.Excused+excused
		}
		have, err := stored(ctx, f.Topic(i))
		if err != nil {
			return nil, fmt.Errorf("read the history of %s: %w", f.Topic(i), err)
		}
		missing := 0
		for n := range acked {
			if !have[fmt.Sprint(n)] {
				missing++
			}
		}
		if missing > 0 {
			r.Problems = append(r.Problems, fmt.Sprintf("%s: %d of %d acknowledged values are not in history", p.ID, missing, len(acked)))
		}
	}
	return r, failed
}

// check holds what every session has against what every publisher was told.
func (f *Fleet) check() (problems []string) {
	for _, s := range append(f.Subscribers[:len(f.Subscribers):len(f.Subscribers)], f.Live...) {
		for i, p := range f.Publishers {
			found, _, _ := device.Check(s, f.Received(i), p)
			problems = append(problems, found...)
		}
	}
	return problems
}

// Report says what became of a fleet's values.
type Report struct {
	Problems     []string // lost, out of order, or doubled though QoS 2; none: as promised
	Acknowledged int
	Sessions     int
	Again        int // receptions of a value that had been received
	Excused      int // of them at QoS 2, of a value that was sent again without a PUBREC
	Refused      int // publishes that were refused and sent again
}

// String is the report in words.
func (r *Report) String() string {
	if len(r.Problems) > 0 {
		return fmt.Sprintf("%d values acknowledged; %d things are wrong:\n%s", r.Acknowledged, len(r.Problems), strings.Join(r.Problems, "\n"))
	}
	return fmt.Sprintf("nothing lost: %d values acknowledged, each in history and received by each of %d sessions, in order; %d receptions were repetitions, %d of them at QoS 2 of values sent again without a PUBREC; %d publishes were refused and sent again",
		r.Acknowledged, r.Sessions, r.Again, r.Excused, r.Refused)
}
