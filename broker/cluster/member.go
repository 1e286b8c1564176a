package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"maestrohub.io/uns/broker/state"
)

// Lease makes the membership writes, over a connection that carries nothing else.
// Its methods are state.Bucket's on the bucket Members, called while earlier calls
// are not back. Put is sent once and never again.
type Lease interface {
	Put(ctx context.Context, key string, value []byte) (uint64, error)
	Create(ctx context.Context, key string, value []byte) (uint64, error)
	Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error)
	Get(ctx context.Context, key string) (state.Record, error)
}

// Options say who a replica is and how it reaches the shared state.
type Options struct {
	// Replica is its id, unique in the cluster and the same after a restart.
	Replica string
	// TTL is memberTTL, the same on every replica.
	TTL time.Duration
	// ConnectBudget is for how long after a CONNECT was refused for the store's
	// sake the entry says so: long enough for the device to come again.
	ConnectBudget time.Duration
	// Mesh is the address other replicas reach its mesh listener at.
	Mesh string
	// Store holds the buckets Members and ClusterFloor.
	Store state.Store
	// Lease makes the membership writes. nil: the store's bucket Members does.
	Lease Lease
	// Silent is for how long the shared-state connection has received nothing.
	// nil: never.
	Silent func() time.Duration
	// Applied is what the entry says of the index. It is called under Member's lock: it
	// must take no other. nil: nothing.
	Applied func() Applied
	// On is told every Event, in order, from one goroutine. A slow one delays
	// later events and nothing else.
	On func(Event)
	// Logger is told of every change of membership. nil: nobody.
	Logger *slog.Logger
	// Newest is the newest format this replica reads: less than the package's where one
	// stands for a release before it. 0: the package's.
	Newest Format
}

// Member is a replica's membership while it runs: it keeps the lease, fences,
// registers again, and judges others. Its methods may be called from anywhere.
type Member struct {
	o       Options
	timing  Timing
	bucket  state.Bucket // Members
	floors  state.Bucket
	current atomic.Pointer[Deadline]

	ctx    context.Context // ends with Stop
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu     sync.Mutex // below; taken last, whatever whoever asks holds
	core   *core
	events []Event
	wake   chan struct{} // holds one token while there are events
}

// Start begins to be a member and returns once the buckets are there; NowServing
// tells when it serves. Another memberTTL than the bucket's is an error here.
func Start(ctx context.Context, o Options) (*Member, error) {
	if o.Replica == "" {
		return nil, errors.New("start membership: the replica id is empty")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	m := &Member{o: o, timing: Timing{o.TTL}, wake: make(chan struct{}, 1)}
	var err error
	if m.bucket, err = o.Store.Bucket(ctx, state.Members); err != nil {
		return nil, fmt.Errorf("start membership: %w", err)
	}
	if m.floors, err = o.Store.Bucket(ctx, state.ClusterFloor); err != nil {
		return nil, fmt.Errorf("start membership: %w", err)
	}
	if m.o.Lease == nil {
		m.o.Lease = m.bucket
	}
	m.o.Newest = cmp.Or(o.Newest, Newest)
	m.core = newCore(o.Replica, o.Mesh, m.timing, time.Now())
	m.core.newest = m.o.Newest
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.work.Go(m.tick)
	m.work.Go(m.tell)
	m.work.Go(func() { m.follow(m.bucket, "", m.memberUpdate) })
	m.work.Go(func() { m.follow(m.floors, FloorKey, m.floorUpdate) })
	return m, nil
}

// do gives the core one event and carries out the effects.
func (m *Member) do(event func(c *core, now time.Time) []effect) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.o.Applied != nil {
		m.core.applied = m.o.Applied()
	}
	effects := event(m.core, time.Now())
	for _, e := range effects {
		m.carryOut(e)
	}
	m.current.Store(m.core.deadline)
}

// tick is what moves time on for the core, a hundred times a TTL.
func (m *Member) tick() {
	tick := time.NewTicker(m.timing.TTL / 100)
	defer tick.Stop()
	for {
		var silent time.Duration
		if m.o.Silent != nil {
			silent = m.o.Silent()
		}
		m.do(func(c *core, now time.Time) []effect { return c.tick(silent, now) })
		select {
		case <-tick.C:
		case <-m.ctx.Done():
			return
		}
	}
}

// carryOut starts what an effect asks for; mu is held, so nothing here waits.
func (m *Member) carryOut(e effect) {
	switch {
	case e.beat != nil:
		m.start(m.timing.WriteBound(), func(ctx context.Context) {
			_, err := m.o.Lease.Put(ctx, m.o.Replica, e.beat.value)
			m.do(func(c *core, now time.Time) []effect { return c.beatDone(e.id, e.beat.sent, err == nil, now) })
		})
	case e.claim != nil:
		m.start(m.timing.WriteBound(), func(ctx context.Context) {
			var revision uint64
			var err error
			if e.claim.revision == 0 {
				revision, err = m.o.Lease.Create(ctx, m.o.Replica, e.claim.value)
			} else {
				revision, err = m.o.Lease.Update(ctx, m.o.Replica, e.claim.value, e.claim.revision)
			}
			m.do(func(c *core, now time.Time) []effect { return c.claimDone(e.id, revision, err, now) })
		})
	case e.readOwn:
		m.start(m.timing.WriteBound(), func(ctx context.Context) { m.readOwn(ctx, e.id) })
	case e.judge != nil:
		m.start(m.timing.WriteBound(), func(ctx context.Context) { m.judge(ctx, e.id, *e.judge) })
	case e.join:
		m.start(m.timing.WriteBound(), func(ctx context.Context) {
			floor, err := joinFloor(ctx, m.floors, e.id, Oldest, m.o.Newest)
			below := errors.Is(err, ErrBelowFloor)
			m.do(func(c *core, now time.Time) []effect { return c.joinDone(e.id, floor, below, err, now) })
		})
	case e.event != nil:
		m.events = append(m.events, *e.event)
		select {
		case m.wake <- struct{}{}:
		default:
		}
	}
}

// start runs f on a goroutine of its own, bounded.
func (m *Member) start(bound time.Duration, f func(ctx context.Context)) {
	if m.ctx.Err() != nil {
		return
	}
	m.work.Go(func() {
		ctx, cancel := context.WithTimeout(m.ctx, bound)
		defer cancel()
		f(ctx)
	})
}

func (m *Member) readOwn(ctx context.Context, id Incarnation) {
	r, err := m.o.Lease.Get(ctx, m.o.Replica)
	there := err == nil
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		return // the next claim, or the watch, tells
	}
	var e Entry
	if there {
		if e, err = DecodeEntry(r.Value); err != nil {
			m.o.Logger.Error("broker cluster: unreadable member entry", "replica", m.o.Replica, "error", err)
			return
		}
	}
	m.do(func(c *core, now time.Time) []effect { return c.ownRead(id, e, r.Revision, there, now) })
}

// judge writes that another replica is gone, where its entry is not.
func (m *Member) judge(ctx context.Context, id, gone Incarnation) {
	value := Entry{Incarnation: gone, Phase: Gone, Oldest: Oldest, Newest: Newest}.Encode(m.Floor())
	landed := false
	// The pause between the decision and here may have been long.
	if d := m.Deadline(); d.Incarnation() == id && d.MayDecide(time.Now()) {
		_, err := m.o.Lease.Create(ctx, gone.Replica, value)
		landed = err == nil
	}
	m.do(func(c *core, now time.Time) []effect { return c.judgeDone(id, gone, landed, now) })
}

// follow keeps a watch of the bucket for as long as the member runs.
func (m *Member) follow(b state.Bucket, prefix string, update func(state.Update)) {
	for m.ctx.Err() == nil {
		w, err := b.Watch(m.ctx, prefix)
		if err == nil {
			for u := range w.Updates() {
				update(u)
			}
			w.Stop()
			update(state.Update{Lost: true})
		}
		if rest(m.ctx, m.timing.Heartbeat()/2) != nil {
			return
		}
	}
}

func (m *Member) memberUpdate(u state.Update) {
	var e Entry
	if u.Key != "" && !u.Deleted {
		var err error
		if e, err = DecodeEntry(u.Value); err != nil {
			m.o.Logger.Error("broker cluster: unreadable member entry", "replica", u.Key, "error", err)
			return
		}
	}
	m.do(func(c *core, now time.Time) []effect {
		switch {
		case u.Lost:
			c.lost()
			return nil
		case u.Ready:
			return c.ready(now)
		default:
			return c.saw(u.Key, e, u.Revision, u.Deleted, now)
		}
	})
}

func (m *Member) floorUpdate(u state.Update) {
	if u.Key != FloorKey || u.Deleted {
		return
	}
	f, err := DecodeFloor(u.Value)
	if err != nil {
		m.o.Logger.Error("broker cluster: unreadable format floor", "error", err)
		return
	}
	m.do(func(c *core, now time.Time) []effect { return c.floorIs(f.Format, now) })
}

// tell hands events to their listener.
func (m *Member) tell() {
	for {
		m.mu.Lock()
		events := m.events
		m.events = nil
		m.mu.Unlock()
		for _, e := range events {
			m.log(e)
			if m.o.On != nil {
				m.o.On(e)
			}
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-m.wake:
		case <-m.ctx.Done():
			return
		}
	}
}

func (m *Member) log(e Event) {
	switch e.Kind {
	case NowServing:
		m.o.Logger.Info("broker cluster: joined", "replica", m.o.Replica, "incarnation", e.Deadline.Incarnation().ID.String(), "floor", uint64(e.Floor))
	case NowFenced:
		m.o.Logger.Warn("broker cluster: fenced", "replica", m.o.Replica, "incarnation", e.Entry.Incarnation.ID.String(), "reason", e.Cause.String())
	case NotServing:
		m.o.Logger.Warn("broker cluster: not serving", "replica", m.o.Replica, "reason", e.Cause.String())
	case MemberEnded:
		m.o.Logger.Info("broker cluster: member ended", "member", e.Entry.Incarnation.String(), "reason", e.How.String())
	case FloorRaised:
		m.o.Logger.Info("broker cluster: format floor raised", "floor", uint64(e.Floor))
	}
}

// Deadline is that of the incarnation serving now; nil while none is.
func (m *Member) Deadline() *Deadline { return m.current.Load() }

// Floor is the format everything is written in.
func (m *Member) Floor() Format {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.core.floor
}

// Ending tells how an incarnation ended that a record names; Held if it has not,
// or not provably yet.
func (m *Member) Ending(i Incarnation) Ending {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i == m.core.id && m.core.stage != lapsed && m.core.stage != stopped {
		return Held
	}
	return m.core.view.ending(i, time.Now())
}

// Over reports whether no process serves, or is about to, under the replica's id: its
// entry says that it has stopped or was judged gone. The own id is over for everybody
// else who ever had it.
func (m *Member) Over(replica string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return replica == m.core.self || m.core.view.over(replica)
}

// Members are the entries of all who are neither gone nor stopped, by replica id,
// the own included.
func (m *Member) Members() []Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.core.members()
}

// Ages says for each member for how long nothing has renewed its lease, as far as this
// replica knows: another's since its last write was seen, the own since the sending of
// the last that landed.
func (m *Member) Ages() map[string]time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.core.ages(time.Now())
}

// Current reports whether the view of the members is proven complete as of at most
// FreshBound before now. Who is not in a view that is older may be a member all the
// same: a SUBACK then waits the FreshBound out instead of counting reports.
func (m *Member) Current(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.core.viewAsOf.IsZero() && now.Sub(m.core.viewAsOf) <= FreshBound
}

// Status is for readiness and the status page.
func (m *Member) Status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.core.status()
}

// Refused says that a CONNECT was refused because the store was slow or away, or
// the replica fenced; the graces of wills stand still for a connectBudget.
func (m *Member) Refused() {
	m.do(func(c *core, now time.Time) []effect { c.refused(m.o.ConnectBudget, now); return nil })
}

// Refusing reports whether this replica or any other member refuses CONNECTs for
// the store's sake.
func (m *Member) Refusing() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.core.refuses(time.Now())
}

// Complete waits until the view of the members is proven complete as of the call.
func (m *Member) Complete(ctx context.Context) error {
	m.mu.Lock()
	done := m.core.await()
	m.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-m.ctx.Done():
		return state.ErrClosed
	}
}

// Stopping says in the entry that this replica is about to stop. The lease goes on
// being renewed so that the server can settle and hand over; then comes Stop.
func (m *Member) Stopping() {
	m.do(func(c *core, now time.Time) []effect { return c.stop(now) })
}

// Stop ends the membership. The entry's last write says stopped, so that nobody
// waits for this life; ctx bounds it, and without it the others find it gone. Not to
// be called from Options.On.
func (m *Member) Stop(ctx context.Context) error {
	m.Stopping()
	var last *beat
	m.do(func(c *core, now time.Time) (out []effect) {
		last, out = c.finish(now)
		return out
	})
	var err error
	if last != nil {
		if _, err = m.o.Lease.Put(ctx, m.o.Replica, last.value); err != nil {
			err = fmt.Errorf("write the last entry of %s: %w", m.o.Replica, err)
		}
	}
	m.cancel()
	m.work.Wait()
	return err
}
