package mesh

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// storms is how many seeds a run tries.
var storms = flag.Uint64("storms", 3, "seeds of TestStorms")

// storm is three replicas on a network that breaks.
type storm struct {
	t        *testing.T
	r        *rand.Rand
	n        *network
	replicas []*replica
	lives    map[string]uint64
	history  []string

	mu    sync.Mutex
	sent  map[string]int // values by "from>to", all lives
	lost  map[string]int // counted, by "from>to"
	fired atomic.Int64
	calls int64
}

func (s *storm) fail(format string, args ...any) {
	s.t.Helper()
	s.t.Errorf(format, args...)
	for _, h := range s.history {
		s.t.Log(h)
	}
	for _, r := range s.replicas {
		s.t.Logf("%s:\n%s", r.id, r.logs)
	}
	s.t.FailNow()
}

func newStorm(t *testing.T, seed uint64) *storm {
	s := &storm{t: t, r: rand.New(rand.NewPCG(seed, 7)), n: newNetwork(), lives: map[string]uint64{}, sent: map[string]int{}, lost: map[string]int{}}
	ids := []string{"a", "b", "c"}
	for i, id := range ids {
		s.lives[id] = uint64(i + 1)
		s.replicas = append(s.replicas, start(t, id, s.n.listen(id), func(o *Options) {
			o.Dial = s.n.dial
			o.RingBytes = 4 << 10 << (seed % 4)
			o.Lost = func(to string, values int) {
				s.mu.Lock()
				s.lost[id+">"+to] += values
				s.mu.Unlock()
			}
		}))
	}
	for _, r := range s.replicas {
		for _, id := range ids {
			r.SetPeer(Peer{Replica: id, Incarnation: s.lives[id], Address: id})
		}
		r.Begin(s.lives[r.id])
	}
	return s
}

// send sends some values from one replica to the others. Those that were linked all the while must have
// them when done is called.
func (s *storm) send(r *replica, lives bool) {
	batch := make([]Outgoing, 1+s.r.IntN(30))
	last := map[string]string{}
	s.mu.Lock()
	for i := range batch {
		var to []string
		for _, p := range s.replicas {
			if p != r && s.r.IntN(3) > 0 {
				key := r.id + ">" + p.id
				s.sent[key]++
				to = append(to, p.id)
			}
		}
		// One number for all who get the value: it grows at each.
		payload := strconv.FormatInt(int64(s.sent[r.id+">a"]+s.sent[r.id+">b"]+s.sent[r.id+">c"]), 10)
		for _, id := range to {
			last[id] = payload
		}
		batch[i] = outgoing(payload, to...)
	}
	s.calls++
	s.mu.Unlock()
	linked := map[string]bool{}
	for _, p := range r.Linked() {
		linked[p.Replica] = true
	}
	changes, lost := r.links.Load(), s.lostBy(r)
	life := fmt.Sprintf("%s/%d", r.id, s.lives[r.id])
	r.SendValues(batch, func() {
		s.fired.Add(1)
		for _, p := range r.Linked() { // a peer that is not linked any more is seen here before LinksChanged
			linked[p.Replica+" still"] = true
		}
		if lives || r.links.Load() != changes || s.lostBy(r) != lost {
			return
		}
		for _, p := range s.replicas {
			want := last[p.id]
			if want == "" || !linked[p.id] || !linked[p.id+" still"] {
				continue
			}
			got := p.got(life)
			if len(got) == 0 || number(got[len(got)-1]) < number(want) {
				s.t.Errorf("done at %s, and %s, linked all the while, does not have value %s", r.id, p.id, want)
			}
		}
	})
}

func (s *storm) lostBy(r *replica) (n int) {
	for _, p := range r.Status().Peers {
		n += int(p.Lost)
	}
	return n
}

func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// blow does one random thing.
func (s *storm) blow(lives bool) {
	what := s.r.IntN(20)
	switch {
	case what < 10:
		for range 1 + s.r.IntN(5) {
			s.send(s.replicas[s.r.IntN(3)], lives)
		}
	case what < 13:
		if all := s.n.all(); len(all) > 0 {
			all[s.r.IntN(len(all))].cut()
		}
	case what < 14:
		if all := s.n.all(); len(all) > 0 {
			all[s.r.IntN(len(all))].frozen.Store(true)
		}
	case what < 15:
		s.n.cut()
	case what < 16:
		s.n.set(s.r.IntN(2) == 0, s.r.IntN(3) == 0)
	case what < 18:
		s.n.set(false, false)
	case what < 19 && lives:
		r := s.replicas[s.r.IntN(3)]
		r.End()
		s.lives[r.id] += 10
		r.note(func() { r.values = map[string][]string{} }) // another life: other subscribers
		r.Begin(s.lives[r.id])
		for _, p := range s.replicas {
			if s.r.IntN(2) == 0 { // others learn it from the hello
				p.SetPeer(Peer{Replica: r.id, Incarnation: s.lives[r.id], Address: r.id})
			}
		}
	}
	pause := time.Duration(s.r.IntN(40)) * 10 * time.Millisecond
	if s.r.IntN(10) == 0 {
		pause *= 15
	}
	s.history = append(s.history, fmt.Sprintf("%d, then %v", what, pause))
	time.Sleep(pause)
}

func (s *storm) calm() {
	s.n.set(false, false)
	s.n.cut()
	for _, r := range s.replicas {
		for _, p := range s.replicas {
			r.SetPeer(Peer{Replica: p.id, Incarnation: s.lives[p.id], Address: p.id})
		}
	}
	for _, r := range s.replicas {
		r.waitLinked(s.t, 2)
	}
	time.Sleep(5 * time.Second)
	synctest.Wait()
}

func (s *storm) check(lives bool) {
	for _, to := range s.replicas {
		to.mu.Lock()
		for from, got := range to.values {
			for i := 1; i < len(got); i++ {
				if number(got[i]) <= number(got[i-1]) {
					s.fail("%s got %s after %s from %s", to.id, got[i], got[i-1], from)
				}
			}
		}
		for _, from := range s.replicas {
			key := from.id + ">" + to.id
			got := len(to.values[fmt.Sprintf("%s/%d", from.id, s.lives[from.id])])
			if !lives && from != to && s.sent[key] != got+s.lost[key] {
				s.fail("%s: %d sent, %d arrived, %d counted as lost", key, s.sent[key], got, s.lost[key])
			}
		}
		to.mu.Unlock()
		if st := to.Status(); st.BufferedBytes != 0 || st.LinksUp != 2 {
			s.fail("%s when all is calm: %+v", to.id, st)
		}
	}
	if s.calls != s.fired.Load() {
		s.fail("%d calls, done called %d times", s.calls, s.fired.Load())
	}
}

func TestStormsLoseNothingUncountedAndDoubleNothing(t *testing.T) {
	deployment()
	for _, lives := range []bool{false, true} {
		for seed := range *storms {
			t.Run(fmt.Sprintf("lives=%v/%d", lives, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newStorm(t, seed)
					for range 120 {
						s.blow(lives)
					}
					s.calm()
					s.check(lives)
					t.Logf("sent %v, lost %v", s.sent, s.lost)
					for _, r := range s.replicas {
						r.Close()
					}
					s.n.cut()
				})
			})
		}
	}
}
