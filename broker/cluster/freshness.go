package cluster

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"maestrohub.io/uns/broker/state"
)

const (
	// FreshBound is how old the proof may be under which a value that nobody
	// seems to want is acknowledged without being appended. It equals how long a
	// SUBACK waits for a replica that does not answer, so by then that replica has
	// applied the subscription or holds such values.
	FreshBound = 3 * time.Second
	// JoinPause is how long after the member entry landed the first probe that
	// counts is sent: a replica that has not seen the entry yet does not wait for
	// this one's report, but answers its own SUBACK within that time.
	JoinPause = 3 * time.Second
	// ProbeEvery is how often the store is probed; the mission allows 2 s, and
	// with 1 s the index stays fresh while a round trip takes up to 2 s.
	ProbeEvery = time.Second
	// probeBound bounds one probe. Longer than any write the lease survives: a
	// slow store must show as slow, not as away.
	probeBound = 15 * time.Second
	// probesKept bounds the probes that are out or landed and not yet applied.
	probesKept = 64
)

// freshness is since when the subscribe index is known to be complete: a probe is
// a write to the bucket the index is made of, and once everything up to its own
// revision is applied, so is everything written before it was sent.
type freshness struct {
	notBefore time.Time // probes sent earlier do not count
	pending   []probe   // not yet proven, oldest first
	applied   uint64    // every revision up to here; 0: unknown
	asOf      time.Time // zero: never
	numbers   uint64
	landedAt  time.Time // when the last probe was found to have landed
}

type probe struct {
	number   uint64
	sent     time.Time
	revision uint64 // 0: not back
}

// begin starts a life: nothing proven so far holds for it.
func (f *freshness) begin(landed time.Time) {
	f.notBefore, f.asOf, f.pending = landed.Add(JoinPause), time.Time{}, nil
}

// sent notes a probe and returns its number.
func (f *freshness) sent(now time.Time) uint64 {
	f.numbers++
	f.pending = append(f.pending, probe{number: f.numbers, sent: now})
	if len(f.pending) > probesKept {
		f.pending = f.pending[1:] // nobody applies what comes back
	}
	return f.numbers
}

// failed forgets a probe that did not land for sure.
func (f *freshness) failed(number uint64) {
	for i, p := range f.pending {
		if p.number == number {
			f.pending = append(f.pending[:i], f.pending[i+1:]...)
			return
		}
	}
}

// landed notes a probe's revision.
func (f *freshness) landed(number, revision uint64, now time.Time) {
	f.landedAt = now
	for i := range f.pending {
		if f.pending[i].number == number {
			f.pending[i].revision = revision
		}
	}
	f.prove()
}

// apply notes that every change up to revision is applied.
func (f *freshness) apply(revision uint64) {
	f.applied = max(f.applied, revision)
	f.prove()
}

// lose notes that changes may be missing: nothing is applied until the next change
// after the records were given anew.
func (f *freshness) lose() { f.applied, f.asOf = 0, time.Time{} }

func (f *freshness) prove() {
	rest := f.pending[:0]
	for _, p := range f.pending {
		if p.revision == 0 || p.revision > f.applied {
			rest = append(rest, p)
			continue
		}
		if !p.sent.Before(f.notBefore) && p.sent.After(f.asOf) {
			f.asOf = p.sent
		}
	}
	f.pending = rest
}

// Freshness probes the store and knows how fresh the subscribe index is. The
// server tells it what the index has applied; Fresh takes no lock.
type Freshness struct {
	bucket state.Bucket
	key    string
	base   time.Time
	asOf   atomic.Int64 // ns since base; 0: never
	seen   atomic.Int64 // when a probe last came back, ns since base
	took   atomic.Int64 // how long it took, ns

	mu sync.Mutex // below
	f  freshness
}

// Probe returns a Freshness for the replica's index of the bucket SessionState.
func Probe(bucket state.Bucket, replica string) *Freshness {
	return &Freshness{bucket: bucket, key: state.ProbeKeys + replica, base: time.Now()}
}

// Run probes until ctx is done. Probes do not wait for one another.
func (f *Freshness) Run(ctx context.Context) {
	var out sync.WaitGroup
	defer out.Wait()
	tick := time.NewTicker(ProbeEvery)
	defer tick.Stop()
	for {
		f.mu.Lock()
		number := f.f.sent(time.Now())
		f.mu.Unlock()
		out.Go(func() { f.probe(ctx, number) })
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (f *Freshness) probe(ctx context.Context, number uint64) {
	ctx, cancel := context.WithTimeout(ctx, probeBound)
	defer cancel()
	sent := time.Now()
	revision, err := f.bucket.Put(ctx, f.key, nil)
	f.change(func(s *freshness) {
		if err != nil {
			s.failed(number)
			return
		}
		now := time.Now()
		f.seen.Store(int64(now.Sub(f.base)))
		f.took.Store(int64(now.Sub(sent)))
		s.landed(number, revision, now)
	})
}

func (f *Freshness) change(with func(*freshness)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	with(&f.f)
	if f.f.asOf.IsZero() {
		f.asOf.Store(0)
		return
	}
	f.asOf.Store(max(1, int64(f.f.asOf.Sub(f.base))))
}

// Begin makes the index unfresh for a new incarnation, whose entry landed just
// now: call it at every NowServing before any CONNECT is accepted.
func (f *Freshness) Begin() { f.change(func(s *freshness) { s.begin(time.Now()) }) }

// Applied says that the index has applied every change up to revision. Call it for
// each change the watch gives after Ready, probe keys included, in order.
func (f *Freshness) Applied(revision uint64) {
	f.change(func(s *freshness) { s.apply(revision) })
}

// Lost says that the watch lost track.
func (f *Freshness) Lost() { f.change((*freshness).lose) }

// Fresh reports whether at now the index is proven complete as of at most
// FreshBound ago.
func (f *Freshness) Fresh(now time.Time) bool {
	asOf := f.asOf.Load()
	return asOf != 0 && now.Sub(f.base)-time.Duration(asOf) <= FreshBound
}

// Since reports whether the index is proven complete as of a time or later.
func (f *Freshness) Since(t time.Time) bool {
	asOf := f.asOf.Load()
	return asOf != 0 && time.Duration(asOf) >= t.Sub(f.base)
}

// Unreachable is for how long no probe has come back.
func (f *Freshness) Unreachable(now time.Time) time.Duration {
	return now.Sub(f.base) - time.Duration(f.seen.Load())
}

// RoundTrip is how long the last probe that came back took: one write of the store. 0:
// none has come back.
func (f *Freshness) RoundTrip() time.Duration { return time.Duration(f.took.Load()) }

// String says how fresh the index is, for the status page and failing tests.
func (f *Freshness) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprintf("as of %v, applied %d, %d probes out", f.f.asOf, f.f.applied, len(f.f.pending))
}
