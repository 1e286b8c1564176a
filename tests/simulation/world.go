package simulation

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/model"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/tests/simulation/history"
	"maestrohub.io/uns/tests/simulation/store"
)

// The one workspace, the API client of all devices, and the topics.
const (
	workspace = "plant"
	user      = "device"
	secret    = "3f1d0c5b7a9e8d6c4b2a19087f6e5d4c3b2a19087f6e5d4c3b2a1908f7e6d5c4"
	inbox     = "mHv1.0/plant/_ingress/device/"
	data      = "mHv1.0/plant/"
)

// options are a run.
type options struct {
	Seed     uint64
	Replicas int
	// Long is for how long faults are done, one about Every so often. The run goes on
	// after them until everything is settled.
	Long, Every time.Duration
	// Faults are those to do; nil: those of the seed.
	Faults []fault

	MemberTTL, WillStopGrace time.Duration
	// Late are those of the subscribers that come, with sessions that stay, while faults
	// are done.
	Publishers, Subscribers, Late int
	// Guests are subscribers of an API client that is disabled, and may read less, for some
	// time; Fickle are some that unsubscribe and subscribe again.
	Guests, Fickle int
	// Rolling: the replicas begin as a release that reads no format but the oldest, and are
	// replaced by this one, one after the other.
	Rolling bool
	// Sleepers are subscribers that stay away longer than the session log, then of LogBytes,
	// keeps a value. 0: the log keeps all.
	Sleepers int
	LogBytes int64
	// FixedIdentifiers is server.Options': few come around within a run.
	FixedIdentifiers uint64
	// LostStores is the share of historian writes whose answer never comes.
	LostStores float64
	Honest     bool // the store does not lie
	// Ghosts is what becomes of what a killed replica had sent to an honest store.
	Ghosts store.Ghosts
	// Watched is a device whose records are in the history with every write.
	Watched string
}

// usual are the options of a seed.
func usual(seed uint64) options {
	r := rand.New(rand.NewPCG(seed, 13))
	o := options{Seed: seed, Replicas: 2 + r.IntN(2), Long: 10 * time.Minute, Every: 20 * time.Second,
		MemberTTL: 10 * time.Second, WillStopGrace: 20 * time.Second, Publishers: 6, Subscribers: 11, Late: 5, Guests: 3, Fickle: 2, LostStores: 0.002}
	if r.IntN(4) == 0 {
		o.Every = 4 * time.Second // one fault after the other
	}
	o.FixedIdentifiers = uint64(8 << r.IntN(6))
	return o
}

// forgetful are the options of a seed for a calm cluster whose log keeps little.
func forgetful(seed uint64) options {
	o := usual(seed)
	o.Faults, o.Long, o.Honest = []fault{}, 6*time.Minute, true
	o.Subscribers, o.Late, o.Guests, o.Fickle, o.Sleepers, o.LogBytes = 0, 0, 0, 0, 4, 24<<10
	return o
}

// world is one cluster and what lives around it.
type world struct {
	o       options
	trace   *trace
	dice    *store.Dice
	network *network
	server  *store.Server
	history *history.History
	model   *model.Model
	nodes   []*node
	faults  []fault
	lies    store.Lies

	historyDelay store.Span
	flights      sync.WaitGroup // at the historian
	tasks        sync.WaitGroup // devices
	processes    sync.WaitGroup
	ending       atomic.Bool

	publishers  []*publisher
	subscribers []*subscriber
	willing     []*willing
	sleepers    []*sleeper

	mu         sync.Mutex // below
	violations []string
	open       []*old
	timers     sync.WaitGroup
	counted    counted
	done       chan struct{}
	revoked    []*revocation
	steps      atomic.Pointer[steps] // counts effects; nil: nobody does
	// watchedWills are the keys of the watched device's wills.
	watchedWills sync.Map
}

// counted are what a check looked at, so that one that looks at nothing is seen.
type counted struct {
	Sent, Acked, Stored, Delivered, DeliveredExcused, CleanRequired, CleanExcused, Once, OnceExcused, OrderExcused, Wills, WillsForbidden, WillsRequired, Takeovers, Judged, Connections, Revoked, RevokedExcused, Unsubscribed, Newer int
}

func (c counted) String() string {
	type plain counted
	return fmt.Sprintf("%+v", plain(c))
}

// result is what a run found.
type result struct {
	options    options
	faults     []fault
	violations []string
	history    *trace
	counted    counted
}

// run runs a cluster to its end. It is called in a bubble of its own.
func run(o options) *result {
	w := build(o)
	faults := o.Faults
	if faults == nil {
		faults = schedule(o.Seed, o.Replicas, o.Long, o.Every)
	}
	w.faults = faults
	for _, f := range faults {
		w.later(f.at, func() { w.do(f) })
	}
	w.live(faults)
	w.check()
	r := &result{options: o, faults: faults, violations: w.violations, history: w.trace, counted: w.counted}
	w.end()
	return r
}

// build starts a cluster.
func build(o options) *world {
	w := &world{o: o, trace: newTrace(), dice: store.NewDice(o.Seed), done: make(chan struct{})}
	w.network = newNetwork(w.dice, w.effect)
	w.history = history.New()
	w.history.Stored = func(client string) { w.effect("the historian stores for %s", client) }
	w.historyDelay = store.Span{Min: 500 * time.Microsecond, Max: 5 * time.Millisecond}
	if !o.Honest {
		w.lies = store.LikeJetStream()
	} else {
		w.lies = store.Lies{Request: store.Span{Min: time.Millisecond, Max: 3 * time.Millisecond}, Reply: store.Span{Min: time.Millisecond, Max: 3 * time.Millisecond}, Ghosts: o.Ghosts}
	}
	var err error
	if w.model, err = model.Parse([]byte("workspaces:\n  - slug: plant\n    bindings:\n      - {topic: \"kept/#\", retain: true}\n")); err != nil {
		panic(err)
	}
	if w.server, err = store.Open(store.Options{MemberTTL: o.MemberTTL, Seed: o.Seed, LogMaxBytes: cmp.Or(o.LogBytes, 64<<20), LogMaxAge: 24 * time.Hour, Landed: w.landed, Appended: w.appended, Left: w.left}); err != nil {
		panic(err)
	}
	w.addUser()
	for i := range o.Replicas {
		n := &node{w: w, name: fmt.Sprintf("uns-%d", i)}
		if o.Rolling {
			n.reads = cluster.Oldest
		}
		w.nodes = append(w.nodes, n)
		n.start()
	}
	return w
}

// addUser adds the devices' API client, as an operator does before.
func (w *world) addUser() {
	c := w.server.Client("operator", store.Lies{})
	defer c.Close()
	a, err := access.Open(context.Background(), c, access.Options{})
	if err == nil {
		if _, err = a.Add(context.Background(), access.Client{ID: user, Workspace: workspace}, secret); err == nil {
			err = a.Seed(context.Background(), guestMay(false))
		}
		a.Close()
	}
	if err != nil {
		panic(err)
	}
}

// live lets the devices live until faults are over and all is settled.
func (w *world) live(faults []fault) {
	last := w.o.Long
	for _, f := range faults {
		last = max(last, f.at+f.long)
	}
	ctx, stop := context.WithCancel(context.Background()) // new values
	calm, calmed := context.WithCancel(context.Background())
	listening, silence := context.WithCancel(context.Background())
	settle, cut := context.WithCancel(context.Background())
	defer stop()
	defer calmed()
	defer silence()
	defer cut()
	w.populate()
	for _, s := range w.subscribers {
		w.tasks.Go(func() { s.run(listening, calm) })
	}
	var publishing, willing sync.WaitGroup
	for _, p := range w.publishers {
		publishing.Go(func() { p.run(ctx, settle) })
	}
	wills, noMore := context.WithCancel(context.Background())
	defer noMore()
	for _, s := range w.sleepers {
		w.tasks.Go(func() { s.run(listening) })
	}
	for _, d := range w.willing {
		willing.Go(func() { d.run(wills) })
	}
	pause(last)
	w.trace.say("! no more faults")
	stop()
	calmed()
	noMore()
	giveUp := time.AfterFunc(5*time.Minute, cut)
	publishing.Wait()
	giveUp.Stop()
	willing.Wait()
	w.trace.say("! all values are settled")
	// What was sent last reaches its subscribers, and the wills of those that are away are
	// due.
	pause(w.o.WillStopGrace + 3*time.Minute)
	w.ending.Store(true)
	silence()
	w.mu.Lock()
	for _, o := range w.open {
		_ = o.nc.Close()
	}
	w.mu.Unlock()
	w.tasks.Wait()
}

func pause(d time.Duration) { <-time.After(d) }

// over reports whether the run is at its end, when nothing may be wrong any more.
func (w *world) over() bool { return !w.ending.Load() }

// populate makes the devices.
func (w *world) populate() {
	r := rand.New(rand.NewPCG(w.o.Seed, 17))
	version := func() mqtt.Version {
		if r.IntN(3) == 0 {
			return mqtt.V311
		}
		return mqtt.V5
	}
	make := func(kind string, i int, clean bool) device {
		id := fmt.Sprintf("%s%d", kind, i)
		return device{w: w, id: id, host: w.network.boot(id), version: version(), clean: clean, expiry: 3000, r: rand.New(rand.NewPCG(w.o.Seed, hash(id)))}
	}
	for i := range w.o.Publishers {
		p := &publisher{device: make("pub", i, false), qos: byte(i % 3), window: 1 + r.IntN(8), every: 300*time.Millisecond + time.Duration(r.IntN(900))*time.Millisecond,
			timed: r.IntN(2) == 0, loss: time.Duration(20+r.IntN(100)) * time.Second}
		if p.qos == 0 && r.IntN(3) > 0 {
			p.qos = 2
		}
		p.topics = []string{fmt.Sprintf("v/%s/a", p.id), fmt.Sprintf("v/%s/b", p.id)}
		w.trace.say("%s publishes at QoS %d, MQTT %d, window %d, timed %v", p.id, p.qos, p.version, p.window, p.timed)
		w.publishers = append(w.publishers, p)
	}
	for i := range w.o.Subscribers {
		s := &subscriber{device: make("sub", i, i%3 == 2), qos: byte(1 + i%2), filter: data + "v/#", loss: time.Duration(20+r.IntN(200)) * time.Second}
		if r.IntN(3) == 0 {
			s.filter = data + "v/+/a"
		}
		if i >= w.o.Subscribers-w.o.Late {
			s.after = time.Duration(r.Int64N(int64(w.o.Long)))
			s.clean = false
		}
		w.trace.say("%s subscribes %s at QoS %d, MQTT %d, clean %v", s.id, s.filter, s.qos, s.version, s.clean)
		w.subscribers = append(w.subscribers, s)
	}
	for i := range w.o.Guests {
		s := &subscriber{device: make("guest", i, i == 2), qos: byte(1 + i%2), filter: data + "v/#", loss: time.Duration(20+r.IntN(200)) * time.Second}
		s.user = guest
		w.trace.say("%s subscribes %s at QoS %d, MQTT %d, clean %v, as %s", s.id, s.filter, s.qos, s.version, s.clean, guest)
		w.subscribers = append(w.subscribers, s)
	}
	for i := range w.o.Fickle {
		s := &subscriber{device: make("fickle", i, false), qos: byte(1 + i%2), filter: data + "v/#", loss: time.Duration(20+r.IntN(200)) * time.Second, fickle: 80 * time.Second}
		w.trace.say("%s subscribes %s at QoS %d, MQTT %d, now and then", s.id, s.filter, s.qos, s.version)
		w.subscribers = append(w.subscribers, s)
	}
	for i := range w.o.Sleepers {
		s := &sleeper{subscriber: subscriber{device: make("sleep", i, false), qos: 2, filter: data + "v/#"}}
		w.sleepers = append(w.sleepers, s)
	}
	for i := range 4 {
		d := &willing{device: make("will", i, false), delay: uint32(r.IntN(3) * 15)}
		d.version, d.expiry = mqtt.V5, uint32(60+r.IntN(600))
		w.trace.say("%s has wills with a delay of %d s, a session of %d s", d.id, d.delay, d.expiry)
		w.willing = append(w.willing, d)
	}
}

func hash(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s))
	return h.Sum64()
}

// isDevice reports whether a host is a device.
func isDevice(name string) bool { return !strings.HasPrefix(name, "uns-") }

// later does something after a while, unless the run has ended.
func (w *world) later(d time.Duration, do func()) {
	w.timers.Go(func() {
		select {
		case <-time.After(d):
			do()
		case <-w.done:
		}
	})
}

// landed looks at every write of the store.
func (w *world) landed(l store.Landing) {
	if !l.Lease && !strings.HasPrefix(l.Key, state.ProbeKeys) {
		w.effect("%s/%s of %s lands", l.Bucket, l.Key, l.Client)
	}
	if w.watches(l) {
		w.trace.say("%s %v %s/%s over %d at %d: %s", l.Client, l.Op, l.Bucket, l.Key, l.Write.Revision, l.Revision, inWords(l))
	}
	defer w.checkFormat(l)
	if l.Bucket != state.Members || l.Op == state.OpDelete {
		return
	}
	e, err := cluster.DecodeEntry(l.Value)
	if err != nil || e.Phase < cluster.Stopped {
		return
	}
	if e.Phase == cluster.Stopped { // its last word: nobody counts it any more
		for _, n := range w.nodes {
			n.mu.Lock()
			if n.serving == e.Incarnation.ID.String() {
				n.serving = ""
			}
			n.mu.Unlock()
		}
		return
	}
	w.trace.say("%s judged %s gone", l.Client, e.Incarnation)
	w.mu.Lock()
	w.counted.Judged++
	w.mu.Unlock()
	for _, n := range w.nodes {
		if n.name != e.Incarnation.Replica {
			continue
		}
		n.mu.Lock()
		serves := n.serving == e.Incarnation.ID.String()
		n.mu.Unlock()
		if serves {
			w.violate("%s was judged gone by %s while it served", e.Incarnation, l.Client)
		}
	}
}

// checkFormat: nothing is written in a format that a replica that serves does not read.
func (w *world) checkFormat(l store.Landing) {
	switch l.Bucket {
	case state.Sessions, state.SessionState, state.SessionCursor, state.SessionQoS2, state.SessionWill, state.Members, state.Routes:
	default:
		return
	}
	number, n := binary.Uvarint(l.Value)
	if n <= 0 {
		return // a deletion, or a probe
	}
	w.mu.Lock()
	w.counted.Newer += int(number) - 1
	w.mu.Unlock()
	for _, node := range w.nodes {
		node.mu.Lock()
		behind := node.serving != "" && node.served < cluster.Format(number)
		node.mu.Unlock()
		if behind {
			w.violate("%s wrote %s/%s in format %d, which %s, which serves, does not read", l.Client, l.Bucket, l.Key, number, node.name)
		}
	}
}

// violate notes that something was wrong.
func (w *world) violate(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.trace.say("VIOLATION: %s", text)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, text)
}

// fail is violate as an error.
func (w *world) fail(format string, args ...any) error {
	w.violate(format, args...)
	return errFailed
}

var errFailed = fmt.Errorf("%w: failed", errLost)

func (w *world) olds(o *old) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = append(w.open, o)
}

// end ends everything, so that nothing is left in the bubble.
func (w *world) end() {
	close(w.done)
	for _, n := range w.nodes {
		n.kill(false)
	}
	w.network.reset(func(*socket) bool { return true })
	w.timers.Wait()
	w.tasks.Wait()
	w.processes.Wait()
	w.flights.Wait()
	if err := w.server.Close(); err != nil {
		panic(err)
	}
	synctest.Wait()
}
