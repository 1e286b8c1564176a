package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/tests/simulation/store"
)

// directed are interleavings done on purpose, where a seed would find them by luck. Each
// is one of those that the design was tested against, or one that a seed once found.
var directed = []struct {
	name     string
	replicas int
	do       func(w *world)
	logBytes int64 // 0: the session log keeps all
}{
	{"a subscription is made while a replica neither hears of it nor is linked", 2, unheardSubscription, 0},
	{"persistent sessions subscribe at QoS 0 while a replica hears of it late", 2, lateZero, 0},
	{"a replica is alone with a server that expires the members by itself", 3, falseAbsence, 0},
	{"a device gives up a CONNECT while what it had sent before is not settled", 3, func(w *world) { unsettled(w, false) }, 0},
	{"a replica is killed that waited for another to settle", 3, func(w *world) { unsettled(w, true) }, 0},
	{"a log is restored that is older than its cursors", 2, restoredLog, 0},
	{"a historian takes nothing for a while", 2, refusingHistorian, 0},
	{"an API client is disabled, and another may read less", 2, takenRights, 0},
	{"a session that moves has unsubscribed", 2, unsubscribed, 0},
	{"the log drops a value whose delivery has begun", 2, func(w *world) { droppedDelivery(w, false) }, 24 << 10},
	{"the log drops a value whose delivery has begun and is in no record", 2, func(w *world) { droppedDelivery(w, true) }, 24 << 10},
	{"a session unsubscribes from what it was sent, and its replica is killed", 2, unsubscribedFromSent, 0},
	{"a session is resumed and unsubscribes before it comes to what was sent", 2, func(w *world) { narrowedBeforeRead(w, false) }, 0},
	{"a session is resumed and lowers its QoS before it comes to what was sent", 2, func(w *world) { narrowedBeforeRead(w, true) }, 0},
	{"a session's cursor is lost with a delivery open", 2, lostCursor, 0},
	{"values are refused while another is on its way to the broker", 2, func(w *world) { refusedOnTheWay(w, false) }, 0},
	{"values are refused while another is on its way, and their device leaves", 2, func(w *world) { refusedOnTheWay(w, true) }, 0},
	{"a QoS 2 flow meets the kill of its subscriber's replica again and again", 3, killedFlow, 0},
}

func TestDirected(t *testing.T) {
	for _, d := range directed {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := build(options{Seed: 1, Replicas: d.replicas, MemberTTL: 10 * time.Second, WillStopGrace: 20 * time.Second, Honest: true, LogBytes: d.logBytes, FixedIdentifiers: 8})
				pause(15 * time.Second)
				d.do(w)
				w.end()
				for _, v := range w.violations {
					t.Error(v)
				}
				if t.Failed() {
					t.Logf("\n%v", w.trace)
				}
			})
		})
	}
}

// at returns a device that connects to one replica, and a way to have it go to another.
func (w *world) at(id string, clean bool, home int) (d device, move func(to int)) {
	var place = make(chan int, 1)
	place <- home
	d = device{w: w, id: id, host: w.network.boot(id), version: mqtt.V5, clean: clean, expiry: 3000, r: rand.New(rand.NewPCG(1, hash(id))),
		where: func() *node {
			n := <-place
			place <- n
			return w.nodes[n]
		}}
	return d, func(to int) {
		<-place
		place <- to
		w.network.reset(func(s *socket) bool { return s.a.name == id })
	}
}

// publishes has a publisher send so many values over its topic, and further ones, and returns what waits
// until they are settled.
func (w *world) publishes(d device, qos byte, every time.Duration, most int, further ...string) (p *publisher, settled func()) {
	p = &publisher{device: d, qos: qos, window: 4, every: every, loss: 1000 * time.Hour, most: most, topics: append([]string{"v/" + d.id + "/a"}, further...)}
	w.publishers = append(w.publishers, p)
	ctx, cut := context.WithTimeout(context.Background(), 5*time.Minute)
	done := make(chan struct{})
	w.tasks.Go(func() { defer close(done); defer cut(); p.run(ctx, ctx) })
	return p, func() { <-done }
}

// subscribes has a subscriber receive what matches a filter below v/, and returns what ends it.
func (w *world) subscribes(d device, qos byte, below string) (s *subscriber, end func()) {
	s = &subscriber{device: d, qos: qos, filter: data + "v/" + below, loss: 1000 * time.Hour}
	w.subscribers = append(w.subscribers, s)
	ctx, silence := context.WithCancel(context.Background())
	done := make(chan struct{})
	w.tasks.Go(func() { defer close(done); s.run(ctx, ctx) })
	return s, func() { silence(); <-done }
}

// B2: what a replica acknowledges of a subscription it has not heard of, it has appended,
// or it holds the acknowledgment: an index that is not proven fresh says nothing.
func unheardSubscription(w *world) {
	d, _ := w.at("pub", false, 0)
	_, settled := w.publishes(d, 1, 200*time.Millisecond, 150)
	// There is a session log, so that what nobody is known to want can be appended.
	d, _ = w.at("other", false, 1)
	_, endOther := w.subscribes(d, 1, "nobody/a")
	pause(5 * time.Second)
	w.nodes[0].with(func(p *process) { p.store.Isolate(store.Shared) })
	w.network.refuse("uns-0", "uns-1", true)
	pause(time.Second)
	d, _ = w.at("late", false, 1)
	_, end := w.subscribes(d, 1, "pub/a")
	pause(8 * time.Second)
	w.nodes[0].with(func(p *process) { p.store.Heal(store.Shared) })
	w.network.refuse("uns-0", "uns-1", false)
	settled()
	pause(15 * time.Second)
	end()
	endOther()
	w.check()
}

// B2, of what no log keeps: a SUBACK means the same to a persistent session's subscription
// at QoS 0, which is fed live by its route, and sessions and routes are not heard of in one.
func lateZero(w *world) {
	const sessions = 20
	topics := make([]string, sessions)
	for i := range topics {
		topics[i] = fmt.Sprintf("v/pub/%d", i)
	}
	slow := w.lies
	slow.Lag = store.Span{Max: 300 * time.Millisecond}
	w.nodes[0].with(func(p *process) { p.store.Lie(slow) })
	d, _ := w.at("pub", false, 0)
	_, settled := w.publishes(d, 1, 2*time.Millisecond, 8000, topics...)
	var ends []func()
	for i := range topics {
		d, _ := w.at(fmt.Sprintf("zero-%d", i), false, 1)
		s := &subscriber{device: d, filter: fmt.Sprintf("%sv/pub/%d", data, i), loss: 1000 * time.Hour,
			arrivals: map[string][]arrival{}, held: map[uint16]bool{}, lossAt: time.Now().Add(1000 * time.Hour)}
		w.subscribers = append(w.subscribers, s)
		ctx, silence := context.WithCancel(context.Background())
		done := make(chan struct{})
		if _, err := s.connect(ctx, 10, nil); err != nil {
			panic(err)
		}
		pause(time.Second) // of the session itself they have heard by then
		here, err := s.subscribe(ctx)
		if err != nil {
			panic(err)
		}
		w.tasks.Go(func() { defer close(done); _ = s.receive(ctx, ctx, here); s.drop() })
		ends = append(ends, func() { silence(); <-done })
	}
	settled()
	pause(5 * time.Second)
	for _, end := range ends {
		end()
	}
	w.check()
}

// What a historian does not take is not acknowledged before it does.
func refusingHistorian(w *world) {
	d, _ := w.at("pub", false, 0)
	_, settled := w.publishes(d, 1, 100*time.Millisecond, 60)
	pause(time.Second)
	w.nodes[0].with(func(p *process) { p.history.Refuse(true) })
	pause(3 * time.Second)
	w.nodes[0].with(func(p *process) { p.history.Refuse(false) })
	settled()
	w.check()
}

// What an API client may not have does not come to it any more.
func takenRights(w *world) {
	guests := func(id string, home int) (s *subscriber, end func()) {
		d, _ := w.at(id, false, home)
		d.user = guest
		return w.subscribes(d, 1, "#")
	}
	_, endHere := guests("here", 0)
	_, endThere := guests("there", 1)
	pause(5 * time.Second)
	d, _ := w.at("pub", false, 0)
	_, settled := w.publishes(d, 1, time.Second, 200, "v/pub/b")
	narrow := w.revoke("narrow guest")
	pause(revocationWithin + 20*time.Second)
	narrow()
	disabled := w.revoke("disable guest")
	pause(revocationWithin + 20*time.Second)
	disabled()
	settled()
	pause(time.Minute) // it has failed to sign in so often that it is held off
	endHere()
	endThere()
	w.check()
}

// An UNSUBACK holds wherever the session goes.
func unsubscribed(w *world) {
	d, move := w.at("keeps", false, 0)
	s := &subscriber{device: d, qos: 1, filter: data + "v/pub/a", loss: 1000 * time.Hour, fickle: 160 * time.Second}
	w.subscribers = append(w.subscribers, s)
	ctx, silence := context.WithCancel(context.Background())
	calm, calmed := context.WithCancel(context.Background())
	done := make(chan struct{})
	w.tasks.Go(func() { defer close(done); s.run(ctx, calm) })
	d, _ = w.at("pub", false, 1)
	_, settled := w.publishes(d, 1, 600*time.Millisecond, 420)
	for i := range 27 {
		pause(9 * time.Second)
		move(1 - i%2)
	}
	calmed()
	settled()
	pause(10 * time.Second)
	silence()
	<-done
	w.check()
	if len(s.spans) < 2 || s.spans[0].over.IsZero() {
		w.violate("it was subscribed %d times, and unsubscribed at %s", len(s.spans), w.trace.since(s.spans[0].over))
	}
}

// B7: a server that is alone expires every member by its own clock and answers whoever
// asks. Who is connected to it takes nobody for gone.
func falseAbsence(w *world) {
	d, _ := w.at("pub", false, 1)
	_, settled := w.publishes(d, 1, 500*time.Millisecond, 60)
	d, _ = w.at("keeps", false, 2)
	_, end := w.subscribes(d, 1, "pub/a")
	w.nodes[0].with(func(p *process) { p.store.Isolate(store.Shared) })
	pause(50 * time.Second)
	w.nodes[0].with(func(p *process) { p.store.Heal(store.Shared) })
	settled()
	pause(15 * time.Second)
	end()
	w.check()
	for _, n := range w.nodes[1:] {
		if n.endedBetween(w.trace.began, time.Now()) {
			w.violate("%s ended though nothing was done to it", n.name)
		}
	}
}

// A device at one replica sends at QoS 2 what the historian does not take; it connects to
// another, which waits for the first to settle; then that CONNECT comes to nothing, and
// the device goes to a third. That has to wait as well.
func unsettled(w *world, kill bool) {
	d, _ := w.at("keeps", false, 2)
	_, end := w.subscribes(d, 2, "pub/a")
	pause(5 * time.Second)
	hang := func(hung bool) { w.nodes[0].with(func(p *process) { p.history.Hang(hung) }) }
	hang(true)
	d, move := w.at("pub", false, 0)
	p, settled := w.publishes(d, 2, 100*time.Millisecond, 4)
	pause(time.Second)
	move(1)
	pause(time.Second)
	if kill {
		w.nodes[1].kill(false)
	}
	move(2)
	pause(2 * time.Second)
	hang(false)
	settled()
	pause(10 * time.Second)
	end()
	if got := len(p.sent); got != 4 {
		w.violate("%d values were sent, want 4", got)
	}
	w.check()
}

// backedUp are the buckets of a backup, but for the cursors.
var backedUp = []string{state.APIClients, state.SessionState, state.Retained, state.SessionWill, state.SessionQoS2, state.ClusterFloor}

// B5: a log is restored as it was before a session read on in it, and the session's cursor
// as of later, so that its sequence names another value. The session reads the log from its
// start, and misses nothing that was acknowledged after the restore.
func restoredLog(w *world) {
	d, _ := w.at("pub", false, 0)
	first, settled := w.publishes(d, 1, 100*time.Millisecond, 20)
	d, _ = w.at("keeps", false, 1)
	s, end := w.subscribes(d, 1, "+/a")
	settled()
	pause(5 * time.Second)
	early, err := w.server.Snapshot(true, backedUp...)
	if err != nil {
		panic(err)
	}
	d, _ = w.at("more", false, 0)
	_, settled = w.publishes(d, 1, 100*time.Millisecond, 20)
	settled()
	pause(5 * time.Second)
	end()
	pause(5 * time.Second)
	late, err := w.server.Snapshot(false, state.SessionCursor)
	if err != nil {
		panic(err)
	}
	for _, n := range w.nodes {
		n.kill(false)
	}
	pause(20 * time.Second) // nothing is on its way any more
	if err := w.server.Restore(early, late); err != nil {
		panic(err)
	}
	w.publishers = nil // what was acknowledged is settled; of the restored state only what follows
	for _, n := range w.nodes {
		n.start()
	}
	pause(20 * time.Second)
	d, _ = w.at("after", false, 0)
	after, settled := w.publishes(d, 1, 100*time.Millisecond, 40)
	settled()
	w.subscribers = nil
	again := *s
	again.device, _ = w.at("keeps", false, 1)
	again.made, again.tried, again.conns = true, true, s.conns
	w.subscribers = append(w.subscribers, &again)
	ctx, silence := context.WithCancel(context.Background())
	done := make(chan struct{})
	w.tasks.Go(func() { defer close(done); again.run(ctx, ctx) })
	pause(15 * time.Second)
	silence()
	<-done
	came := map[string]bool{}
	for topic, list := range again.arrivals {
		for _, a := range list {
			came[fmt.Sprintf("%s %d", topic, a.number)] = true
		}
	}
	for _, v := range after.sent {
		if !came[fmt.Sprintf("%s%s %d", data, v.topic, v.number)] {
			w.violate("%s %d was acknowledged after the restore and did not come to a session whose cursor was of the log before it", v.topic, v.number)
		}
	}
	for _, v := range first.sent {
		if !came[fmt.Sprintf("%s%s %d", data, v.topic, v.number)] {
			w.violate("%s %d is in the restored log and did not come to a session that reads it from its start", v.topic, v.number)
		}
	}
}

// B6: a device has received a value at QoS 2 and said nothing of it, and the log drops the
// value while it is away. It holds the packet identifier for that value, so this is not used
// for another before the device has let it go.
//
// killed: the delivery is in no record, for it went ahead of one and its replica is killed.
func droppedDelivery(w *world, killed bool) {
	s, move := w.hesitates()
	ctx := context.Background()
	if killed {
		w.nodes[1].kill(false)
		move(0)
	}
	s.drop()
	if len(s.held) != 1 {
		w.violate("%d deliveries are open, want 1", len(s.held))
	}
	in := func() (here *stay) {
		if _, err := s.connect(ctx, 10, nil); err != nil {
			panic(err)
		}
		return &stay{arrivals: map[string][]arrival{}}
	}
	d, _ := w.at("filler", false, 0)
	_, settled := w.publishes(d, 1, 2*time.Millisecond, 1000)
	settled()
	pause(5 * time.Second)
	// It takes what there is, and once more begins a connection with nothing open.
	here := in()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		if err := s.some(ctx, here, end); err != nil {
			panic(err)
		}
	}
	s.drop()
	w.all(s, in(), "whose value the log has dropped")
}

// hesitates returns a device at uns-1, subscribed at QoS 2, that has finished some
// deliveries and received another, of which it has said nothing.
func (w *world) hesitates() (s *sleeper, move func(to int)) {
	d, move := w.at("keeps", false, 1)
	s = &sleeper{subscriber: subscriber{device: d, qos: 2, filter: data + "v/+/a", arrivals: map[string][]arrival{}, held: map[uint16]bool{}}}
	ctx := context.Background()
	if _, err := s.connect(ctx, 10, nil); err != nil {
		panic(err)
	}
	if _, err := s.subscribe(ctx); err != nil {
		panic(err)
	}
	d, _ = w.at("pub", false, 0)
	_, settled := w.publishes(d, 2, 2*time.Second, 4)
	if err := s.until(ctx, time.Now().Add(5*time.Second), &stay{arrivals: map[string][]arrival{}}); err != nil {
		panic(err)
	}
	settled()
	return s, move
}

// all has 20 values published at QoS 2 and checks that each comes once to a session that
// had a delivery open.
func (w *world) all(s *sleeper, here *stay, whose string) {
	ctx := context.Background()
	d, _ := w.at("after", false, 0)
	after, settled := w.publishes(d, 2, 100*time.Millisecond, 20)
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		if err := s.some(ctx, here, end); err != nil {
			panic(err)
		}
	}
	settled()
	came := map[int]int{}
	for _, a := range here.arrivals[data+after.topics[0]] {
		came[a.number]++
	}
	for _, v := range after.sent {
		if came[v.number] != 1 {
			w.violate("%s %d came %d times to a session that had a delivery open %s", v.topic, v.number, came[v.number], whose)
		}
	}
	s.drop()
}

// A device has received a value at QoS 2, said nothing of it, and unsubscribed. Whoever
// resumes its session does not come to that value by its subscriptions any more, and ends the
// delivery all the same: the device holds the packet identifier.
func unsubscribedFromSent(w *world) {
	s, move := w.hesitates()
	ctx := context.Background()
	if err := s.unsubscribe(ctx, &span{}); err != nil {
		panic(err)
	}
	w.nodes[1].kill(false)
	move(0)
	s.drop()
	ack, err := s.connect(ctx, 10, nil)
	if err != nil || !ack.SessionPresent {
		panic(fmt.Sprint(err, " session present ", ack.SessionPresent))
	}
	here, err := s.subscribe(ctx)
	if err != nil {
		panic(err)
	}
	w.all(s, here, "of what it has unsubscribed from")
}

// The session log takes nothing for so long that what waits for it is refused, with all that
// the broker has of its topic. One more value is on its way meanwhile, is taken, and is ahead
// of those when they are sent again: over the same connection, or over another, if their
// device leaves before it hears of the refusals. Nothing is lost, and nothing else is out of
// order.
func refusedOnTheWay(w *world, leaves bool) {
	d, _ := w.at("keeps", false, 1)
	_, end := w.subscribes(d, 1, "pub/a")
	pause(5 * time.Second)
	d, _ = w.at("pub", false, 0)
	var gone atomic.Bool
	d.where = func() *node {
		if gone.Load() {
			return w.nodes[1]
		}
		return w.nodes[0]
	}
	p := &publisher{device: d, qos: 1, window: 8, every: 2 * time.Second, loss: 1000 * time.Hour, most: 12, topics: []string{"v/pub/a"}}
	w.publishers = append(w.publishers, p)
	began := make(chan struct{})
	p.begins = func(number int) {
		if number == 3 {
			close(began)
		}
	}
	ctx, cut := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cut()
	done := make(chan struct{})
	w.tasks.Go(func() { defer close(done); p.run(ctx, ctx) })
	<-began
	w.nodes[0].with(func(p *process) { p.store.Hang(store.Shared) })
	pause(8 * time.Second)
	w.network.stall("pub", "uns-0", true)
	pause(4 * time.Second)
	w.nodes[0].with(func(p *process) { p.store.Heal(store.Shared) })
	pause(500 * time.Millisecond)
	w.network.stall("pub", "uns-0", false)
	if leaves {
		gone.Store(true)
		w.network.moveThose(func(s *socket) bool { return s.a.name == "pub" })
	}
	<-done
	pause(10 * time.Second)
	end()
	w.check()
	if w.counted.OrderExcused == 0 {
		w.violate("nothing was overtaken: %v", w.counted)
	}
}

// The same device asks for less once its session is resumed, with its first packet: before
// the replica has read so far in the log. No window is smaller.
func narrowedBeforeRead(w *world, lower bool) {
	s, move := w.hesitates()
	ctx := context.Background()
	w.nodes[1].kill(false)
	move(0)
	s.drop()
	w.network.change(func() { w.network.between(s.id, "uns-0").delay = store.Span{} })
	ack, err := s.connect(ctx, 1, nil)
	if err != nil || !ack.SessionPresent {
		panic(fmt.Sprint(err, " session present ", ack.SessionPresent))
	}
	if lower {
		s.qos = 1
		_, err = s.subscribe(ctx)
		s.qos = 2
	} else {
		err = s.unsubscribe(ctx, &span{})
	}
	if err != nil {
		panic(err)
	}
	here, err := s.subscribe(ctx)
	if err != nil {
		panic(err)
	}
	w.all(s, here, "of what it asked for no more")
}

// A restore has not brought the cursor of a session whose device holds an identifier.
func lostCursor(w *world) {
	s, move := w.hesitates()
	pause(5 * time.Second)
	s.drop()
	pause(5 * time.Second)
	kept, err := w.server.Snapshot(true, backedUp...)
	if err != nil {
		panic(err)
	}
	for _, n := range w.nodes {
		n.kill(false)
	}
	pause(20 * time.Second) // nothing is on its way any more
	if err := w.server.Restore(kept); err != nil {
		panic(err)
	}
	for _, n := range w.nodes {
		n.start()
	}
	pause(20 * time.Second)
	w.publishers = nil
	move(0)
	ack, err := s.connect(context.Background(), 10, nil)
	if err != nil || !ack.SessionPresent {
		panic(fmt.Sprint(err, " session present ", ack.SessionPresent))
	}
	w.all(s, &stay{arrivals: map[string][]arrival{}}, "when its cursor was lost")
}

// What has gone ahead of its record at QoS 2 is sent again under its identifier by whoever
// resumes the session, whenever its replica was killed.
func killedFlow(w *world) {
	d, move := w.at("keeps", false, 1)
	_, end := w.subscribes(d, 2, "+/a")
	r := rand.New(rand.NewPCG(w.o.Seed, 5))
	pause(5 * time.Second)
	for i := range 10 {
		d, _ := w.at(fmt.Sprintf("pub%d", i), false, 0)
		_, settled := w.publishes(d, 2, 5*time.Millisecond, 200)
		pause(200*time.Millisecond + time.Duration(r.Int64N(int64(600*time.Millisecond))))
		at := 1 + i%2
		w.nodes[at].kill(false)
		move(3 - at)
		settled()
		w.nodes[at].start()
		for !w.nodes[at].serves() {
			pause(time.Second)
		}
	}
	pause(15 * time.Second)
	end()
	w.check()
}

// some takes one packet, or none until a time, and answers it.
func (s *sleeper) some(ctx context.Context, here *stay, until time.Time) error {
	h, body, err := s.read(ctx, until)
	if errors.Is(err, errQuiet) {
		return nil
	}
	if err == nil {
		err = s.take(h, body, here)
	}
	if err == nil {
		err = s.flush()
	}
	return err
}
