package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"maestrohub.io/uns/broker/state"
)

const (
	// willEvery and sweepEvery are how often the elected replica looks at the
	// wills and at everything else.
	willEvery  = 500 * time.Millisecond
	sweepEvery = 5 * time.Second
	// willsAtOnce is how many wills are sent at a time, so that those of a lost
	// replica do not crowd out its devices' return.
	willsAtOnce = 32
	// actsAtOnce is how many writes go out between two looks at the lease.
	actsAtOnce = 100
	// willRetry is the pause before a will is sent again that could not be.
	willRetry = time.Second
	// configureRetry is the pause before the store is brought to the settings again.
	configureRetry = 10 * time.Second
)

// Sweeper does the work of one replica among all: it waits for the sweep lock and
// holds it while it serves and has a current lease. The lock only elects; every write
// is conditional, so that two who both believe to hold it do no harm.
//
// Every replica's Sweeper follows the wills and counts their graces, so that whoever is
// elected knows for how long each has waited. A holder of the lock that the members took
// for gone, or that stopped, is succeeded at once.
type Sweeper struct {
	Member *Member
	Store  state.Store
	Sweep  Sweep
	// ConnectBudget is how long a returning device holds its will.
	ConnectBudget time.Duration
	// Publish sends a will through the chain: see WillSender.
	Publish func(ctx context.Context, w *Will) error
	// Deleted reports whether an identity was deleted; may be nil.
	Deleted func(ctx context.Context, identity string) (bool, error)
	// Did is told of each act and each will that is over; may be nil.
	Did func(a *Act, w *Will, outcome WillOutcome)
	// Configure is called when elected, to bring the store to this replica's settings, and
	// again until it has: what it cannot change today, a server being down, it can tomorrow.
	// May be nil.
	Configure func(ctx context.Context) error
	Logger    *slog.Logger

	// willed is locked before mu.
	willed table[*Will]

	mu     sync.Mutex // below; after any table's, before Member's
	life   *Deadline  // whose wills are; nil while none serves
	wills  *Wills     // nil while none serves
	counts Counts
}

// Counts is what the sweep sees.
type Counts struct {
	Elected bool
	Offline int // sessions not connected
	Waiting int // wills
}

// Counts is for the status page.
func (s *Sweeper) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// Returning says that a CONNECT of the client arrived here or, by the mesh, at
// another replica.
func (s *Sweeper) Returning(client string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wills != nil {
		s.wills.Returning(client, time.Now())
	}
}

// Run counts the graces of wills and takes part in the election until ctx is done.
func (s *Sweeper) Run(ctx context.Context) {
	s.willed = table[*Will]{decode: DecodeWill, bad: s.unreadable,
		saw: func(_ string, r Stored[*Will]) {
			s.withWills(func(w *Wills) { w.Saw(r.Record, r.Revision, time.Now()) })
		},
		removed: func(_ string, r *Will) { s.withWills(func(w *Wills) { w.Removed(r.Connection) }) }}
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { s.followWills(ctx) })
	work.Go(func() { s.noteWills(ctx) })
	lock := s.Store.Lock(state.SweepLock)
	acquire := lock.Acquire
	if l, ok := lock.(state.Succession); ok {
		acquire = func(ctx context.Context) (state.Held, error) { return l.Succeed(ctx, s.Member.Over) }
	}
	for ctx.Err() == nil {
		if d := s.Member.Deadline(); d.MayDecide(time.Now()) {
			held, err := acquire(ctx)
			if err == nil {
				// A wait for the lock may have outlived the lease it began under.
				if d := s.Member.Deadline(); d.MayDecide(time.Now()) {
					s.elected(ctx, d, held.Lost())
				}
				held.Release()
			}
		}
		if rest(ctx, s.Member.timing.Heartbeat()) != nil {
			return
		}
	}
}

func (s *Sweeper) unreadable(key string, err error) {
	s.Logger.Error("broker cluster: an unreadable record is left alone", "key", key, "error", err)
}

// withWills gives f the wills, if this replica serves.
func (s *Sweeper) withWills(f func(*Wills)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wills != nil {
		f(s.wills)
	}
}

// followWills keeps the table of wills until ctx is done.
func (s *Sweeper) followWills(ctx context.Context) {
	for {
		b, err := s.Store.Bucket(ctx, state.SessionWill)
		if err == nil {
			err = s.willed.follow(ctx, b)
			s.willed.update(state.Update{Lost: true})
		}
		if rest(ctx, s.Member.timing.Heartbeat()) != nil {
			return
		}
		s.Logger.Warn("broker cluster: the wills are not followed, trying again", "error", err)
	}
}

// noteWills moves the clock of the wills on until ctx is done.
func (s *Sweeper) noteWills(ctx context.Context) {
	tick := time.NewTicker(willEvery)
	defer tick.Stop()
	for {
		s.note()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// note counts the time since the last one, if this replica may decide; with a new
// incarnation all graces begin anew.
func (s *Sweeper) note() {
	d := s.Member.Deadline()
	refusing, ending := s.Member.Refusing(), s.endings()
	s.begin(d)
	s.withWills(func(w *Wills) {
		if now := time.Now(); s.life == d && d.MayDecide(now) {
			w.Note(now, refusing, ending)
		}
	})
}

// begin makes the wills those of an incarnation; nil: of none.
func (s *Sweeper) begin(d *Deadline) {
	s.willed.mu.Lock()
	defer s.willed.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life == d {
		return
	}
	s.life, s.wills = d, nil
	if d == nil {
		return
	}
	s.wills = NewWills(s.Sweep.Grace, s.ConnectBudget, s.Sweep.Most)
	for _, r := range s.willed.records {
		s.wills.Saw(r.Record, r.Revision, time.Now())
	}
}

// endings tells how incarnations ended, each asked about once.
func (s *Sweeper) endings() func(Incarnation) Ending {
	endings := map[Incarnation]Ending{}
	return func(i Incarnation) Ending {
		how, asked := endings[i]
		if !asked {
			how = s.Member.Ending(i)
			endings[i] = how
		}
		return how
	}
}

// elected sweeps until the lock, the lease or ctx ends.
func (s *Sweeper) elected(ctx context.Context, d *Deadline, lost <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.Logger.Info("broker cluster: elected to sweep", "incarnation", d.Incarnation().String())
	t := s.newTerm(d)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	if s.Configure != nil {
		work.Go(func() { s.configure(ctx) })
	}
	if err := t.open(ctx, &work, cancel); err != nil {
		s.Logger.Warn("broker cluster: cannot sweep", "error", err)
		return
	}
	s.begin(d)
	s.mu.Lock()
	s.counts.Elected = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.counts = Counts{}
		s.mu.Unlock()
	}()
	will, sweep := time.NewTicker(willEvery), time.NewTicker(sweepEvery)
	defer will.Stop()
	defer sweep.Stop()
	for {
		select {
		case <-will.C:
			if !d.MayDecide(time.Now()) {
				return // elected again once the lease is current
			}
			t.tickWills(ctx, &work)
		case <-sweep.C:
			// Wills do not wait for a sweep that waits for the store.
			select {
			case t.sweeping <- struct{}{}:
				work.Go(func() {
					t.sweep(ctx)
					<-t.sweeping
				})
			default:
			}
		case <-lost:
			return
		case <-d.Over():
			return
		case <-ctx.Done():
			return
		}
	}
}

// configure brings the store to this replica's settings, until it has or ctx is done. It
// logs each reason once.
func (s *Sweeper) configure(ctx context.Context) {
	said := ""
	for {
		err := s.Configure(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			if said != "" {
				s.Logger.Info("broker cluster: the store has this replica's settings now")
			}
			return
		}
		if err.Error() != said {
			said = err.Error()
			s.Logger.Warn("broker cluster: the store could not be brought to this replica's settings", "error", err)
		}
		if rest(ctx, configureRetry) != nil {
			return
		}
	}
}

// term is one election: everything it knows ends with it, but for the wills.
type term struct {
	*Sweeper
	deadline *Deadline
	sender   WillSender
	buckets  map[string]state.Bucket
	slots    chan struct{}
	sweeping chan struct{} // full while a sweep runs

	owners   table[Owner]
	sessions table[*Session]
	cursors  table[*Cursor]
	received table[*Received]
	routes   table[*Route]
}

func (s *Sweeper) newTerm(d *Deadline) *term {
	t := &term{Sweeper: s, deadline: d, buckets: map[string]state.Bucket{}, slots: make(chan struct{}, willsAtOnce), sweeping: make(chan struct{}, 1)}
	bad := s.unreadable
	t.owners = table[Owner]{decode: DecodeOwner, bad: bad}
	t.sessions = table[*Session]{decode: DecodeSession, bad: bad,
		skip:    func(key string) bool { return strings.HasPrefix(key, state.ProbeKeys) },
		removed: func(client string, _ *Session) { t.withWills(func(w *Wills) { w.SessionEnded(client) }) }}
	t.cursors = table[*Cursor]{decode: DecodeCursor, bad: bad}
	t.received = table[*Received]{decode: DecodeReceived, bad: bad}
	t.routes = table[*Route]{decode: DecodeRoute, bad: bad}
	return t
}

// open opens the buckets and starts to follow them; a watch that ends ends the term.
func (t *term) open(ctx context.Context, work *sync.WaitGroup, cancel func()) error {
	for name, follow := range map[string]func(context.Context, state.Bucket) error{
		state.Sessions: t.owners.follow, state.SessionState: t.sessions.follow, state.SessionCursor: t.cursors.follow,
		state.SessionQoS2: t.received.follow, state.SessionWill: nil, state.Routes: t.routes.follow,
	} {
		b, err := t.Store.Bucket(ctx, name)
		if err != nil {
			return fmt.Errorf("open %s: %w", name, err)
		}
		t.buckets[name] = b
		if follow == nil {
			continue // followed already
		}
		work.Go(func() {
			defer cancel()
			if err := follow(ctx, b); err != nil && ctx.Err() == nil {
				t.Logger.Warn("broker cluster: the sweep lost a watch", "bucket", name, "error", err)
			}
		})
	}
	t.sender = WillSender{Wills: t.buckets[state.SessionWill], Owners: t.buckets[state.Sessions], Floor: t.Member.Floor, Publish: t.Publish}
	return nil
}

func (t *term) tickWills(ctx context.Context, work *sync.WaitGroup) {
	refusing, ending := t.Member.Refusing(), t.endings()
	var due []Due
	t.withWills(func(w *Wills) {
		if t.life != t.deadline {
			return
		}
		due = w.Tick(time.Now(), refusing, ending)
		t.counts.Waiting = w.Waiting()
	})
	for _, d := range due {
		work.Go(func() {
			select {
			case t.slots <- struct{}{}:
				defer func() { <-t.slots }()
				t.send(ctx, d)
			case <-ctx.Done():
				t.withWills(func(w *Wills) { w.Unsent(d.Will.Connection, 0) })
			}
		})
	}
}

func (t *term) send(ctx context.Context, d Due) {
	outcome, err := t.sender.Send(ctx, d.Will, d.Revision, d.How, t.deadline.Incarnation(), t.deadline.MayDecide)
	switch {
	case err != nil || outcome == WillElsewhere || outcome == WillFenced:
		if err != nil && ctx.Err() == nil {
			t.Logger.Warn("broker cluster: a will could not be sent and is kept", "client_id", d.Will.Client, "error", err)
		}
		t.withWills(func(w *Wills) { w.Unsent(d.Will.Connection, willRetry) })
	case t.Did != nil:
		t.Did(nil, d.Will, outcome)
	}
}

// sweep makes the writes that are due, and raises the format floor if all read more.
func (t *term) sweep(ctx context.Context) {
	k := &Stock{}
	if !snapshot(&t.owners, &k.Owners) || !snapshot(&t.sessions, &k.Sessions) || !snapshot(&t.cursors, &k.Cursors) ||
		!snapshot(&t.received, &k.Received) || !snapshot(&t.willed, &k.Wills) || !snapshot(&t.routes, &k.Routes) {
		return
	}
	t.withWills(func(w *Wills) { k.Arrived = w.Arrived(time.Now()) })
	k.Deleted = t.deleted(ctx, k)
	acts := t.Sweep.Decide(time.Now(), t.Member.Floor(), k, t.Member.Ending)
	for len(acts) > 0 {
		n := 1
		for n < len(acts) && n < actsAtOnce && acts[n].Bucket == acts[0].Bucket {
			n++
		}
		if !t.deadline.MayDecide(time.Now()) {
			return
		}
		t.apply(ctx, acts[:n])
		acts = acts[n:]
	}
	offline := 0
	for client := range k.Sessions {
		if o, there := k.Owners[client]; !there || o.Record.Ending != Held {
			offline++
		}
	}
	t.mu.Lock()
	t.counts.Offline = offline
	t.mu.Unlock()
	bounded, cancel := context.WithTimeout(ctx, t.Member.timing.TTL)
	defer cancel()
	if _, err := t.Member.RaiseFloor(bounded, t.deadline); err != nil && ctx.Err() == nil {
		t.Logger.Warn("broker cluster: the format floor could not be raised", "error", err)
	}
}

// deleted are the identities of offline sessions that were deleted. Of one that nobody can
// tell of now the sessions stay, until the next sweep.
func (t *term) deleted(ctx context.Context, k *Stock) map[string]bool {
	deleted := map[string]bool{}
	if t.Deleted == nil {
		return deleted
	}
	ctx, cancel := context.WithTimeout(ctx, t.Member.timing.TTL)
	defer cancel()
	for client, r := range k.Sessions {
		if o, there := k.Owners[client]; there && o.Record.Ending == Held {
			continue
		}
		id := r.Record.Identity
		if _, asked := deleted[id]; asked {
			continue
		}
		is, err := t.Deleted(ctx, id)
		deleted[id] = is && err == nil
	}
	return deleted
}

// apply makes writes of one bucket. One that fails is decided again next time.
func (t *term) apply(ctx context.Context, acts []Act) {
	writes := make([]state.Write, len(acts))
	for i, a := range acts {
		writes[i] = a.Write
	}
	for i, r := range t.buckets[acts[0].Bucket].Apply(ctx, writes) {
		if r.Err == nil && t.Did != nil {
			acts[i].Landed = r.Revision
			t.Did(&acts[i], nil, 0)
		}
	}
}

// snapshot copies a table; false while it is not complete.
func snapshot[T any](t *table[T], into *map[string]Stored[T]) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := make(map[string]Stored[T], len(t.records))
	for key, s := range t.records {
		m[key] = s
	}
	*into = m
	return t.ready
}
