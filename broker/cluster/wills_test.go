package cluster

import (
	"testing"
	"time"
)

const (
	grace  = 30 * time.Second
	budget = 20 * time.Second
	most   = time.Hour
)

func TestAWillWaitsAsItsConnectionEnded(t *testing.T) {
	for _, c := range []struct {
		how           Ending
		delay, expiry uint32
		want          time.Duration
	}{
		{Lost, 0, 3600, 0},
		{Lost, 60, 3600, time.Minute},
		{Lost, 60, 10, 10 * time.Second},
		{Lost, 60, 0, 0},
		{EndedGone, 0, 0, grace},
		{EndedFenced, 10, 3600, grace},
		{EndedStopped, 300, 3600, 5 * time.Minute},
		{EndedStopped, 300, 20, grace},
	} {
		if got := WillWait(c.how, c.delay, c.expiry, grace); got != c.want {
			t.Errorf("%v, delay %d, expiry %d: waits %v, want %v", c.how, c.delay, c.expiry, got, c.want)
		}
	}
}

// B10.6: a device leaving a stopping replica finds its old connection let go by that
// replica. Treated as a takeover of an open connection it would send a false will at
// every rolling upgrade.
func TestOnlyATakeoverOfAnOpenConnectionSendsAWillAtTheClaim(t *testing.T) {
	for _, c := range []struct {
		how   Claimed
		delay uint32
		ends  bool
		want  bool
	}{
		{ClosedByTakeover, 0, false, true},
		{ClosedByTakeover, 60, false, false},
		{ClosedByTakeover, 60, true, true},
		{EndedBefore, 0, false, false},
		{EndedBefore, 0, true, false},
	} {
		if got := WillAtClaim(c.how, c.delay, c.ends); got != c.want {
			t.Errorf("%+v: sent %v", c, got)
		}
	}
}

// deciding drives a Wills through seconds.
type deciding struct {
	*Wills
	t        *testing.T
	now      float64
	refusing bool
	ended    map[Incarnation]Ending
}

func newDeciding(t *testing.T) *deciding {
	return &deciding{Wills: NewWills(grace, budget, most), t: t, ended: map[Incarnation]Ending{}}
}

// until ticks every half second and returns when a will first was due, or -1.
func (d *deciding) until(end float64) (first float64) {
	first = -1
	for ; d.now < end; d.now += 0.5 {
		due := d.Tick(at(d.now), d.refusing, func(i Incarnation) Ending { return d.ended[i] })
		if len(due) > 0 && first < 0 {
			first = d.now
		}
	}
	return first
}

func aWill(n byte) *Will {
	return &Will{Client: "dev", Connection: id(n), Incarnation: life1("a", 1), Expiry: 3600, Topic: "off"}
}

func TestAWillOfALivingIncarnationDoesNotWait(t *testing.T) {
	d := newDeciding(t)
	d.Saw(aWill(1), 1, at(d.now))
	if f := d.until(600); f >= 0 || d.Waiting() != 0 {
		t.Fatalf("due at %v", f)
	}
	d.ended[life1("a", 1)] = EndedGone
	if f := d.until(700); f < 630 || f > 631 {
		t.Fatalf("due at %v, want the grace after 600", f)
	}
}

// B10.2: nothing had to be handed over by the replica that ended.
func TestEveryWayToEndLetsTheWillWaitTheGraceAndBeSentOnce(t *testing.T) {
	for _, how := range []Ending{EndedFenced, EndedStopped, EndedGone} {
		d := newDeciding(t)
		d.Saw(aWill(1), 1, at(d.now))
		d.ended[life1("a", 1)] = how
		if f := d.until(100); f < 30 || f > 30.5 {
			t.Errorf("%v: due at %v", how, f)
		}
		if f := d.until(200); f >= 0 {
			t.Errorf("%v: due again at %v", how, f)
		}
	}
}

// B10.5 and W2: while any member turns devices away for the store's sake, the grace
// stands still, however long that is.
func TestTheGraceStandsStillWhileAnybodyRefuses(t *testing.T) {
	d := newDeciding(t)
	d.Saw(aWill(1), 1, at(d.now))
	d.ended[life1("a", 1)] = EndedFenced
	d.until(29)
	d.refusing = true
	if f := d.until(3000); f >= 0 {
		t.Fatalf("due at %v while devices are refused", f)
	}
	d.refusing = false
	if f := d.until(3100); f < 3000.5 || f > 3002 {
		t.Fatalf("due at %v, want when what was left of the grace is over", f)
	}
}

// B10.5: the device arrived at 29.9 s and its claim lands later than the grace.
func TestAReturningDeviceHoldsItsWill(t *testing.T) {
	d := newDeciding(t)
	d.Saw(aWill(1), 1, at(d.now))
	other := aWill(2)
	other.Client = "other"
	d.Saw(other, 2, at(d.now))
	d.ended[life1("a", 1)] = EndedStopped
	d.until(29)
	d.Returning("dev", at(29))
	due := map[string]float64{}
	for ; d.now < 100; d.now += 0.5 {
		for _, w := range d.Tick(at(d.now), false, func(i Incarnation) Ending { return d.ended[i] }) {
			due[w.Will.Client] = d.now
		}
	}
	if due["other"] < 30 || due["other"] > 30.5 {
		t.Errorf("another device's will is due at %v", due["other"])
	}
	if due["dev"] < 49 || due["dev"] > 49.5 {
		t.Errorf("due at %v, want one connectBudget after it arrived", due["dev"])
	}
}

func TestADeviceThatReturnsForEverHoldsItsWillForMaxSessionExpiry(t *testing.T) {
	d := newDeciding(t)
	d.Saw(aWill(1), 1, at(d.now))
	d.ended[life1("a", 1)] = EndedStopped
	first := -1.0
	for ; d.now < 5000; d.now += 0.5 {
		d.Returning("dev", at(d.now))
		if due := d.Tick(at(d.now), false, func(i Incarnation) Ending { return d.ended[i] }); len(due) > 0 && first < 0 {
			first = d.now
		}
	}
	if first < 3630 || first > 3631 {
		t.Fatalf("due at %v, want the grace and maxSessionExpiry", first)
	}
}

// B10.7 and C12: the grace is the decider's own. Another decider, or the same after a
// fence, begins anew, and no time written by anybody counts.
func TestAnotherDeciderBeginsTheGraceAnew(t *testing.T) {
	d := newDeciding(t)
	d.Saw(aWill(1), 1, at(d.now))
	d.ended[life1("a", 1)] = EndedGone
	d.until(29.5)
	next := newDeciding(t)
	next.now, next.ended = d.now, d.ended
	next.Saw(aWill(1), 1, at(d.now))
	if f := next.until(100); f < 59 || f > 60 {
		t.Fatalf("due at %v, want a whole grace after 29.5", f)
	}
}

// What the other members say during a pause is only known after it.
func TestAPausedDeciderDoesNotCountThePause(t *testing.T) {
	d := newDeciding(t)
	d.Saw(aWill(1), 1, at(d.now))
	d.ended[life1("a", 1)] = EndedGone
	d.until(10)
	d.now = 60
	if f := d.until(200); f < 77 {
		t.Fatalf("due at %v, 10 s counted before the pause and 2 s of it", f)
	}
}

func TestASessionThatEndsEarlyEndsTheDelayToo(t *testing.T) {
	d := newDeciding(t)
	w := aWill(1)
	w.Delay = 1800
	d.Saw(w, 1, at(d.now))
	d.ended[life1("a", 1)] = EndedGone
	d.until(100)
	d.SessionEnded("dev")
	if f := d.until(200); f < 100 || f > 101 {
		t.Fatalf("due at %v", f)
	}
}

func TestAWillThatCouldNotBeSentIsDueAgain(t *testing.T) {
	d := newDeciding(t)
	d.Saw(aWill(1), 1, at(d.now))
	d.ended[life1("a", 1)] = EndedGone
	d.until(31)
	d.Unsent(id(1), time.Second)
	if f := d.until(40); f < 31.5 || f > 32.5 {
		t.Fatalf("due at %v", f)
	}
	d.Unsent(id(1), time.Second)
	d.Removed(id(1))
	if f := d.until(60); f >= 0 {
		t.Fatalf("due at %v after its record was deleted", f)
	}
}

func TestWillsAreDueInTheOrderTheyWaited(t *testing.T) {
	d := newDeciding(t)
	for n := byte(1); n < 50; n++ {
		w := aWill(n)
		w.Delay = uint32(100 - n)
		d.Saw(w, uint64(n), at(d.now))
	}
	d.ended[life1("a", 1)] = EndedGone
	d.until(1)
	due := d.Tick(at(1000), false, nil)
	if len(due) != 0 {
		t.Fatalf("%d due after one late tick", len(due))
	}
	d.clock += 1000 * time.Second
	due = d.Tick(at(1000), false, nil)
	for i := 1; i < len(due); i++ {
		if due[i].Will.Delay < due[i-1].Will.Delay {
			t.Fatalf("a delay of %d s before one of %d", due[i-1].Will.Delay, due[i].Will.Delay)
		}
	}
	if len(due) != 49 {
		t.Fatalf("%d due", len(due))
	}
}

// The CONNECT that declared a will was announced like any other. It is not the device's
// return: a replica killed right after it has its will sent when the grace is over.
func TestTheConnectThatDeclaredAWillDoesNotHoldIt(t *testing.T) {
	d := newDeciding(t)
	d.now = 14
	d.Returning("dev", at(14))
	d.Saw(aWill(1), 1, at(14.2))
	d.ended[life1("a", 1)] = EndedGone
	d.Wills.grace = 4 * time.Second
	if f := d.until(60); f < 18 || f > 18.5 {
		t.Errorf("due at %v, want 4 s after 14", f)
	}
	// The next one is, also while it is not through.
	d = newDeciding(t)
	d.Wills.grace = 4 * time.Second
	d.Saw(aWill(1), 1, at(0))
	d.ended[life1("a", 1)] = EndedGone
	d.until(3)
	d.Returning("dev", at(3))
	if f := d.until(60); f < 23 || f > 23.5 {
		t.Errorf("due at %v, want a connectBudget after 3", f)
	}
}
