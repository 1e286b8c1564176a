package store

import (
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"
)

// Span is a range of durations.
type Span struct{ Min, Max time.Duration }

func (s Span) pick(r *rand.Rand) time.Duration {
	if s.Max <= s.Min {
		return s.Min
	}
	return s.Min + time.Duration(r.Int64N(int64(s.Max-s.Min)))
}

// Lies are what a client's connections do to every call. The zero value is honest.
type Lies struct {
	// Request and Reply are how long a request and its answer are on their way.
	Request, Reply Span
	// Late is the share of writes that sit in a hung server first, for LateBy.
	Late   float64
	LateBy Span
	// Unknown is the share of bucket writes that are answered ErrUnknown, whatever
	// becomes of them. Only those whose caller set a deadline: state/jetstream goes on
	// asking for as long as its caller waits.
	Unknown float64
	// Conflict is the share of conditional writes refused by a deposed leader. Nothing
	// is written.
	Conflict float64
	// Stale is the share of reads that show what was there StaleBy ago.
	Stale   float64
	StaleBy Span
	// Lag is how far watches and tails are behind.
	Lag Span
	// Lose is the share of blindnesses after which a watch begins anew.
	Lose float64
	// Ghosts is which of a killed client's writes that were on their way land, later.
	Ghosts Ghosts
}

// Ghosts says which writes land after the death of who made them.
type Ghosts uint8

// Some do, by the dice; all do; none does.
const (
	SomeGhosts Ghosts = iota
	AllGhosts
	NoGhosts
)

func (g Ghosts) lands(r *rand.Rand) bool {
	some := r.IntN(2) == 0
	return g == AllGhosts || g == SomeGhosts && some
}

// LikeJetStream are the lies of a cluster under load with an election now and then.
func LikeJetStream() Lies {
	ms := time.Millisecond
	return Lies{
		Request: Span{ms, 8 * ms}, Reply: Span{ms, 8 * ms},
		Late: 0.002, LateBy: Span{time.Second, 14 * time.Second},
		Unknown: 0.005, Conflict: 0.001,
		Stale: 0.02, StaleBy: Span{10 * ms, 4 * time.Second},
		Lag: Span{ms, 30 * ms}, Lose: 0.5,
	}
}

func (l *Lies) honest() bool { return *l == Lies{} }

// Dice gives numbers that depend on the seed, on what they are for and on how often that
// was asked, and on nothing else: not on which goroutine came first elsewhere.
type Dice struct {
	seed  uint64
	mu    sync.Mutex
	asked map[string]uint64
}

// NewDice returns the dice of a seed.
func NewDice(seed uint64) *Dice { return &Dice{seed: seed, asked: map[string]uint64{}} }

// Roll returns the next source for a purpose.
func (d *Dice) Roll(purpose string) *rand.Rand {
	d.mu.Lock()
	d.asked[purpose]++
	n := d.asked[purpose]
	d.mu.Unlock()
	h := fnv.New64a()
	_, _ = h.Write([]byte(purpose))
	return rand.New(rand.NewPCG(d.seed^h.Sum64(), n))
}
