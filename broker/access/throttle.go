package access

import (
	"container/list"
	"net/netip"
	"sync"
	"time"
)

// Throttle says when failed sign-ins are throttled.
type Throttle struct {
	// Threshold failures within Window, which begins with the first of them,
	// block. Fewer: a typing error blocks; more: a guesser gets more tries.
	// 0: 10. Negative: nothing is throttled.
	Threshold int
	// Window: 0 is 60 s.
	Window time.Duration
	// Backoff is how long the first block lasts, 0: 30 s. Each further one is
	// twice as long, to BackoffMax, 0: 15 min, until there was no failure for
	// a Window after the last.
	Backoff, BackoffMax time.Duration
}

func (t *Throttle) complete() {
	if t.Threshold == 0 {
		t.Threshold = 10
	}
	if t.Window <= 0 {
		t.Window = time.Minute
	}
	if t.Backoff <= 0 {
		t.Backoff = 30 * time.Second
	}
	if t.BackoffMax <= 0 {
		t.BackoffMax = 15 * time.Minute
	}
	t.BackoffMax = max(t.BackoffMax, t.Backoff)
}

const (
	// maxTracked bounds each table of the throttle, at about 200 bytes an entry.
	maxTracked = 1 << 15
	// together is how many times the threshold blocks a name that fails from
	// many addresses.
	together = 10
	// networkBits is how much of an IPv6 address is one customer's.
	networkBits = 64
)

// who is what failures are counted for: a digest of a user name, an address,
// or both.
type who struct {
	name    [16]byte
	address netip.Addr
}

// failures is what is known of one who.
type failures struct {
	who     who
	count   int
	since   time.Time // the window's beginning
	until   time.Time // blocked until then
	backoff time.Duration
}

// throttle counts failed sign-ins. Its tables are bounded; what is tracked
// longest without a failure is forgotten first.
type throttle struct {
	Throttle
	mu        sync.Mutex
	pairs     table // by name and address; by name alone where there is no address
	names     table // by name, over all addresses
	addresses table
	// known are pairs that have signed in: devices an address does not lock out.
	known table
}

func newThrottle(t Throttle) *throttle {
	t.complete()
	return &throttle{Throttle: t, pairs: newTable(), names: newTable(), addresses: newTable(), known: newTable()}
}

// keys returns what a sign-in counts for; the address is invalid if it is not the
// device's own.
func keys(name [16]byte, address netip.Addr) (pair, alone, at who) {
	address = address.Unmap().WithZone("")
	if address.Is6() {
		network, _ := address.Prefix(networkBits)
		address = network.Addr()
	}
	return who{name, address}, who{name: name}, who{address: address}
}

// wait returns how long this sign-in is still blocked.
func (t *throttle) wait(name [16]byte, address netip.Addr) time.Duration {
	if t.Threshold < 0 {
		return 0
	}
	pair, alone, at := keys(name, address)
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	wait := t.pairs.blocked(pair, now)
	if address.IsValid() && t.known.find(pair) == nil {
		wait = max(wait, t.names.blocked(alone, now), t.addresses.blocked(at, now))
	}
	return wait
}

// failed counts a failed sign-in.
func (t *throttle) failed(name [16]byte, address netip.Addr) {
	if t.Threshold < 0 {
		return
	}
	pair, alone, at := keys(name, address)
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count(&t.pairs, pair, now, t.Threshold)
	if address.IsValid() {
		t.count(&t.names, alone, now, together*t.Threshold)
		t.count(&t.addresses, at, now, t.Threshold)
	}
}

// succeeded forgets the pair's failures: what is left of them was typing.
func (t *throttle) succeeded(name [16]byte, address netip.Addr) {
	if t.Threshold < 0 {
		return
	}
	pair, _, _ := keys(name, address)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pairs.forget(pair)
	if address.IsValid() {
		t.known.touch(pair)
	}
}

func (t *throttle) count(in *table, key who, now time.Time, threshold int) {
	f := in.touch(key)
	if now.Before(f.until) {
		return // it was under way when the block began
	}
	if now.Sub(f.since) >= t.Window {
		if f.backoff > 0 && now.Sub(f.until) >= t.Window {
			f.backoff = 0
		}
		f.count, f.since = 0, now
	}
	if f.count++; f.count < threshold {
		return
	}
	f.backoff = min(max(2*f.backoff, t.Backoff), t.BackoffMax)
	f.count, f.until = 0, now.Add(f.backoff)
	f.since = f.until // what fails soon after the block counts towards a longer one
}

// table is a bounded map, the least recently touched going first.
type table struct {
	entries map[who]*list.Element
	order   *list.List // of *failures, the newest in front
}

func newTable() table { return table{entries: map[who]*list.Element{}, order: list.New()} }

func (t *table) find(key who) *failures {
	if e := t.entries[key]; e != nil {
		return e.Value.(*failures)
	}
	return nil
}

func (t *table) blocked(key who, now time.Time) time.Duration {
	if f := t.find(key); f != nil && now.Before(f.until) {
		return f.until.Sub(now)
	}
	return 0
}

// touch returns the key's entry, making it if there is none.
func (t *table) touch(key who) *failures {
	if e := t.entries[key]; e != nil {
		t.order.MoveToFront(e)
		return e.Value.(*failures)
	}
	if len(t.entries) >= maxTracked {
		t.forget(t.order.Back().Value.(*failures).who)
	}
	f := &failures{who: key}
	t.entries[key] = t.order.PushFront(f)
	return f
}

func (t *table) forget(key who) {
	if e := t.entries[key]; e != nil {
		t.order.Remove(e)
		delete(t.entries, key)
	}
}
