package mesh

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// step is what can happen to an outbox, the inbox at the other end and the link between them.
type step byte

const (
	pushValue step = iota
	pushQuestion
	pushShare
	writeOne // one frame goes onto the wire
	readOne  // and is handled at the other end
	ackOne   // an acknowledgment arrives
	breakLink
	resumeLink
	giveUp // the peer is not waited for any more
	steps
)

func (s step) String() string {
	return [...]string{"value", "question", "share", "write", "read", "ack", "break", "resume", "give up"}[s]
}

// onWire is a frame on the wire, or a skip.
type onWire struct {
	skip   bool
	number uint64
	frame  []byte
}

// model runs an outbox against what it promises.
type model struct {
	out     outbox
	in      inbox
	up      bool
	wire    []onWire
	acks    []uint64
	pushed  int               // frames
	fate    map[uint64]string // of each frame by its own number, which is in its bytes
	order   []uint64          // as handled
	waiting map[*waiter]uint64
	history []step
}

func newModel(limit int) *model {
	return &model{out: outbox{limit: limit}, up: true, fate: map[uint64]string{}, waiting: map[*waiter]uint64{}}
}

func (m *model) do(s step) (err error) {
	m.history = append(m.history, s)
	switch s {
	case pushValue, pushQuestion, pushShare:
		m.pushed++
		k := map[step]kind{pushValue: kindValue, pushQuestion: kindRelease, pushShare: kindShare}[s]
		e := entry{kind: k, frame: binary.BigEndian.AppendUint64([]byte{byte(k)}, uint64(m.pushed)), share: uint64(m.pushed), at: time.Duration(m.pushed), wait: &waiter{}}
		m.waiting[e.wait] = uint64(m.pushed)
		before := m.lost()
		var gone evicted
		m.out.push(e, &gone)
		// What is lost is the oldest that was never given out: the counts must say the same.
		for n := uint64(1); n <= uint64(m.pushed); n++ {
			if m.fate[n] == "" && !m.holds(n) {
				m.fate[n] = "lost"
			}
		}
		if counted := gone.values + len(gone.shares); m.lost()-before != counted {
			err = fmt.Errorf("%d frames are gone, %d counted", m.lost()-before, counted)
		}
		m.tell(gone.waits)
	case writeOne:
		if !m.up {
			return nil
		}
		frame, number, skip, ok := m.out.next()
		if !ok {
			return nil
		}
		if skip {
			m.wire = append(m.wire, onWire{skip: true, number: number - 1})
		}
		m.wire = append(m.wire, onWire{number: number, frame: frame})
	case readOne:
		if !m.up || len(m.wire) == 0 {
			return nil
		}
		w := m.wire[0]
		m.wire = m.wire[1:]
		if w.skip {
			return m.in.skip(w.number)
		}
		m.in.handled++
		if m.in.handled != w.number {
			return fmt.Errorf("frame %d counted as %d", w.number, m.in.handled)
		}
		n := binary.BigEndian.Uint64(w.frame[1:])
		if m.fate[n] != "" {
			return fmt.Errorf("frame %d is handled and was %s", n, m.fate[n])
		}
		m.fate[n] = "handled"
		m.order = append(m.order, n)
		m.acks = append(m.acks, m.in.handled)
	case ackOne:
		if !m.up || len(m.acks) == 0 {
			return nil
		}
		waits, err := m.out.ack(m.acks[0], nil)
		m.acks = m.acks[1:]
		if err != nil {
			return err
		}
		return m.tellHandled(waits)
	case breakLink:
		m.up, m.wire, m.acks = false, nil, nil
	case resumeLink:
		m.up, m.wire, m.acks = true, nil, nil
		waits, err := m.out.resume(m.in.handled, nil)
		if err != nil {
			return err
		}
		return m.tellHandled(waits)
	case giveUp:
		m.tell(m.out.unwait(nil))
		for _, share := range m.out.takeBack() {
			if m.fate[share] != "" {
				return fmt.Errorf("share %d is taken back and was %s", share, m.fate[share])
			}
			m.fate[share] = "taken back"
		}
		if len(m.waiting) != 0 {
			return fmt.Errorf("%d still wait", len(m.waiting))
		}
	}
	return err
}

func (m *model) tell(waits []*waiter) {
	for _, w := range waits {
		delete(m.waiting, w)
	}
}

// tellHandled also checks that what is acknowledged was handled.
func (m *model) tellHandled(waits []*waiter) error {
	for _, w := range waits {
		if n := m.waiting[w]; m.fate[n] != "handled" {
			return fmt.Errorf("frame %d is acknowledged and not handled (%q)", n, m.fate[n])
		}
	}
	m.tell(waits)
	return nil
}

func (m *model) lost() (n int) {
	for _, f := range m.fate {
		if f == "lost" {
			n++
		}
	}
	return n
}

func (m *model) holds(n uint64) bool {
	for _, q := range []*fifo[entry]{&m.out.kept, &m.out.fresh} {
		for i := range q.len() {
			if e := q.at(i); e.frame != nil && binary.BigEndian.Uint64(e.frame[1:]) == n {
				return true
			}
		}
	}
	return false
}

// check looks at what must hold after every step.
func (m *model) check() error {
	bytes, flight, waits := 0, 0, 0
	last := uint64(0)
	for _, q := range []*fifo[entry]{&m.out.kept, &m.out.fresh} {
		for i := range q.len() {
			e := q.at(i)
			bytes += e.cost()
			if q == &m.out.kept && i < m.out.written {
				flight += e.cost()
			}
			if e.wait != nil {
				waits++
			}
			if e.number <= last {
				return fmt.Errorf("number %d after %d", e.number, last)
			}
			last = e.number
		}
	}
	if bytes != m.out.bytes || flight != m.out.flight || waits != m.out.waits || len(m.waiting) != waits {
		return fmt.Errorf("bytes %d flight %d waits %d, counted %d %d %d, %d wait", bytes, flight, waits, m.out.bytes, m.out.flight, m.out.waits, len(m.waiting))
	}
	if m.out.bytes > m.out.limit && m.out.fresh.len() > 0 {
		return fmt.Errorf("%d bytes kept, %d allowed, and there is more to drop", m.out.bytes, m.out.limit)
	}
	for i := 1; i < len(m.order); i++ {
		if m.order[i] <= m.order[i-1] {
			return fmt.Errorf("handled %d after %d", m.order[i], m.order[i-1])
		}
	}
	return nil
}

// finish brings everything over, and checks that nothing is unaccounted for.
func (m *model) finish() error {
	todo := []step{resumeLink}
	for range m.pushed + 1 {
		todo = append(todo, writeOne, readOne, readOne, ackOne)
	}
	for _, s := range todo {
		if err := m.do(s); err != nil {
			return err
		}
	}
	if err := m.check(); err != nil {
		return err
	}
	for n := uint64(1); n <= uint64(m.pushed); n++ {
		if m.fate[n] == "" {
			return fmt.Errorf("frame %d is neither handled nor counted", n)
		}
	}
	if _, waiting := m.out.oldest(); waiting || m.out.bytes != 0 || len(m.waiting) != 0 {
		return fmt.Errorf("%d bytes and %d waiters are left", m.out.bytes, len(m.waiting))
	}
	return nil
}

func (m *model) run(list []step) error {
	for _, s := range list {
		err := m.do(s)
		if err == nil {
			err = m.check()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func history(list []step) string {
	var s []string
	for _, h := range list {
		s = append(s, h.String())
	}
	return strings.Join(s, ", ")
}

// frameCost is what one frame of the model costs.
const frameCost = 9 + entryBytes

// possible reports whether a step would do anything.
func (m *model) possible(s step) bool {
	switch s {
	case writeOne:
		return m.up && m.out.written < m.out.kept.len()+m.out.fresh.len()
	case readOne:
		return len(m.wire) > 0
	case ackOne:
		return len(m.acks) > 0
	case breakLink:
		return m.up
	case resumeLink:
		return !m.up
	case giveUp:
		return len(m.waiting) > 0
	}
	return true
}

func TestEveryShortHistoryOfAnOutbox(t *testing.T) {
	const depth = 6
	histories := 0
	var all func(list []step)
	all = func(list []step) {
		m := newModel(2 * frameCost)
		if err := m.run(list); err != nil {
			t.Fatalf("%v\nafter: %s", err, history(m.history))
		}
		if len(list) == depth {
			histories++
			if err := m.finish(); err != nil {
				t.Fatalf("%v\nafter: %s", err, history(m.history))
			}
			return
		}
		for s := range steps {
			if m.possible(s) {
				all(append(list[:len(list):len(list)], s))
			}
		}
	}
	all(nil)
	t.Logf("%d histories of %d steps", histories, depth)
}

func TestLongRandomHistoriesOfAnOutbox(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := newModel((1 + r.IntN(12)) * frameCost)
		// Some histories are calm and some break all the time.
		calm := 1 + r.IntN(20)
		list := make([]step, 200)
		for i := range list {
			s := step(r.IntN(int(steps)))
			if s >= breakLink && r.IntN(calm) > 0 {
				s = step(r.IntN(int(breakLink)))
			}
			list[i] = s
		}
		err := m.run(list)
		if err == nil {
			err = m.finish()
		}
		if err != nil {
			t.Fatalf("seed %d: %v\nafter: %s", seed, err, history(m.history))
		}
	}
}

func TestAcknowledgmentsThatCannotBeAreRefused(t *testing.T) {
	var o outbox
	o.limit = 1 << 20
	var gone evicted
	for range 3 {
		o.push(entry{kind: kindValue, frame: []byte{1}}, &gone)
	}
	o.next()
	o.next()
	if _, err := o.ack(3, nil); err == nil {
		t.Error("frame 3 acknowledged before it was written")
	}
	if _, err := o.ack(2, nil); err != nil {
		t.Error(err)
	}
	if _, err := o.ack(1, nil); err == nil {
		t.Error("acknowledgment goes back")
	}
	if _, err := o.resume(1, nil); err == nil {
		t.Error("the other end has forgotten what it acknowledged")
	}
	if _, err := o.resume(3, nil); err == nil {
		t.Error("the other end has handled what was never written")
	}
}

func TestFlightIsBounded(t *testing.T) {
	o := outbox{limit: 64 << 20}
	var gone evicted
	frame := make([]byte, 1<<20)
	for range 10 {
		o.push(entry{kind: kindValue, frame: frame}, &gone)
	}
	n := 0
	for {
		if _, _, _, ok := o.next(); !ok {
			break
		}
		n++
	}
	if n != 3 || o.flight > flightBytes {
		t.Errorf("%d frames of 1 MiB written unacknowledged, %d bytes", n, o.flight)
	}
	large := outbox{limit: 64 << 20}
	large.push(entry{kind: kindValue, frame: make([]byte, 8<<20)}, &gone)
	if _, _, _, ok := large.next(); !ok {
		t.Error("a frame larger than what may be in flight is never written")
	}
}
