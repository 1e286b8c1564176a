package cluster

import (
	"testing"
	"time"
)

func newRegistration(mine ...ID) *registration {
	return &registration{timing: ten(), id: life1("a", 9), mine: func(i ID) bool {
		for _, m := range mine {
			if m == i {
				return true
			}
		}
		return false
	}}
}

func entry(n byte, number, beat uint64, phase Phase) Entry {
	return Entry{Incarnation: life1("a", n), Number: number, Beat: beat, Phase: phase, Oldest: 1, Newest: 1}
}

func TestAStartWithoutAnEntryRegistersAtOnce(t *testing.T) {
	r := newRegistration()
	if _, ok := r.next(at(0)); ok {
		t.Fatal("claims before the watch has given what there is")
	}
	r.begin(at(0))
	c, ok := r.next(at(0))
	if !ok || c.revision != 0 {
		t.Fatalf("claims %+v, %v", c, ok)
	}
	if _, twice := r.next(at(1)); twice {
		t.Fatal("a second conditional write on the key while one is out")
	}
	r.landed(41)
	if r.number != 41 || r.duplicate() {
		t.Fatalf("number %d", r.number)
	}
}

// B13: two processes under one id, the second started while the first lives.
func TestAnEntryThatIsRewrittenIsNeverTakenOver(t *testing.T) {
	r := newRegistration()
	r.begin(at(0))
	for s := range 100 {
		r.saw(entry(1, 5, uint64(s), Serving), uint64(10+s), at(float64(s)))
		for _, d := range []float64{0.1, 0.5, 0.99} {
			if c, ok := r.next(at(float64(s) + d)); ok {
				t.Fatalf("at %v s: claims %+v over a living process", float64(s)+d, c)
			}
		}
	}
	if !r.duplicate() {
		t.Fatal("a duplicate that does not say so")
	}
	// It ends; three heartbeats later its entry may be taken.
	if _, ok := r.next(at(101.9)); ok {
		t.Fatal("claims before three heartbeats of silence")
	}
	c, ok := r.next(at(102))
	if !ok || c.revision != 109 || r.duplicate() {
		t.Fatalf("claims %+v, %v after three heartbeats of silence", c, ok)
	}
}

func TestWhatNobodyRewritesIsTakenOverAtOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		e    Entry
	}{
		{"stopped", entry(1, 5, 7, Stopped)},
		{"judged gone", entry(1, 5, 0, Gone)},
		{"an earlier life of this process", entry(2, 5, 7, Fenced)},
	} {
		r := newRegistration(id(2))
		r.begin(at(0))
		r.saw(c.e, 30, at(0))
		if got, ok := r.next(at(0)); !ok || got.revision != 30 {
			t.Errorf("%s: claims %+v, %v", c.name, got, ok)
		}
	}
}

func TestALivingEntryIsWatchedForThreeHeartbeatsFirst(t *testing.T) {
	r := newRegistration()
	r.begin(at(0))
	r.saw(entry(1, 5, 7, Serving), 30, at(0))
	if _, ok := r.next(at(2.9)); ok {
		t.Fatal("claims before three heartbeats of silence")
	}
	if c, ok := r.next(at(3)); !ok || c.revision != 30 {
		t.Fatalf("claims %+v, %v", c, ok)
	}
}

// A killed process's heartbeats may sit in a hung server and arrive together: that
// is not a living process, only a reason to wait.
func TestABurstOfLateHeartbeatsIsNoDuplicate(t *testing.T) {
	r := newRegistration()
	r.begin(at(0))
	r.saw(entry(1, 5, 1, Serving), 30, at(0))
	for i := range 8 {
		r.saw(entry(1, 5, uint64(2+i), Serving), uint64(31+i), at(2+float64(i)/100))
	}
	if r.duplicate() {
		t.Fatal("late heartbeats count as a living process")
	}
	if c, ok := r.next(at(5.08)); !ok || c.revision != 38 {
		t.Fatalf("claims %+v, %v", c, ok)
	}
}

func TestAnUnknownOutcomeIsResolvedByWhatStandsThere(t *testing.T) {
	r := newRegistration()
	r.begin(at(0))
	r.next(at(0))
	r.failed(true, at(10))
	if _, ok := r.next(at(10.5)); ok {
		t.Fatal("tries again at once")
	}
	if !r.saw(Entry{Incarnation: r.id, Oldest: 1, Newest: 1}, 50, at(10.5)) || r.number != 50 {
		t.Fatal("the own entry stands there and the life is not registered")
	}
	if !r.first.Equal(at(0)) {
		t.Fatalf("the lease would count from %v: the write that landed may be the first", r.first.Sub(epoch))
	}
	// Also when a second try met the first one.
	r = newRegistration()
	r.begin(at(0))
	r.next(at(0))
	r.failed(true, at(10))
	r.next(at(11))
	r.failed(false, at(12))
	if !r.saw(Entry{Incarnation: r.id, Oldest: 1, Newest: 1}, 50, at(12)) || !r.first.Equal(at(0)) {
		t.Fatalf("the lease would count from %v", r.first.Sub(epoch))
	}
	// A definite conflict means that the first one did not land.
	r = newRegistration()
	r.begin(at(0))
	r.next(at(0))
	r.failed(false, at(1))
	r.absent(0)
	r.next(at(2))
	if !r.first.Equal(at(2)) {
		t.Fatalf("counts from %v", r.first.Sub(epoch))
	}
}

func TestAGuardFencesAtOnceBeforeANewerLife(t *testing.T) {
	g := guard{timing: ten(), id: life1("a", 9), number: 100, mine: func(i ID) bool { return i == id(2) }}
	for _, c := range []struct {
		name     string
		e        Entry
		revision uint64
		want     Cause
	}{
		{"the own heartbeat", Entry{Incarnation: life1("a", 9), Number: 100, Beat: 3}, 130, 0},
		{"late, of an own earlier life", entry(2, 50, 3, Serving), 131, 0},
		{"an earlier life judged gone", entry(1, 40, 0, Gone), 132, 0},
		{"a newer life's registration", entry(3, 0, 0, Starting), 133, NewerLife},
		{"a newer life's heartbeat", entry(3, 133, 2, Serving), 134, NewerLife},
		{"judged gone", Entry{Incarnation: life1("a", 9), Phase: Gone}, 135, JudgedGone},
	} {
		if got := g.saw(c.e, c.revision, at(0)); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// B13: the late heartbeat of one's own earlier process is overwritten by the next
// own one, and fences nobody; a second one apart from it is a living process.
func TestALateHeartbeatOfAnEarlierLifeFencesNobody(t *testing.T) {
	g := guard{timing: ten(), id: life1("a", 9), number: 100, mine: func(ID) bool { return false }}
	for i := range 10 { // all that the hung server held
		if c := g.saw(entry(1, 40, uint64(i), Serving), uint64(130+i), at(float64(i)/1000)); c != 0 {
			t.Fatalf("fenced by late heartbeat %d: %v", i, c)
		}
	}
	if c := g.saw(entry(1, 40, 11, Serving), 141, at(1)); c != DuplicateID {
		t.Fatalf("an earlier process that goes on writing: %v", c)
	}
}

func TestABucketMadeAnewIsWatchedAnew(t *testing.T) {
	r := newRegistration()
	r.begin(at(100))
	r.saw(entry(1, 5, 1, Stopped), 3, at(100))
	r.forget()
	if _, ok := r.next(at(200)); ok {
		t.Fatal("claims while the watch gives everything anew")
	}
	r.begin(at(200))
	// The bucket was made anew: revisions began again.
	r.saw(entry(1, 1, 1, Serving), 2, at(200))
	if c, ok := r.next(at(200).Add(3 * time.Second)); !ok || c.revision != 2 {
		t.Fatalf("claims %+v, %v", c, ok)
	}
}
