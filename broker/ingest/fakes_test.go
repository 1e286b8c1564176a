package ingest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/topic"
	"maestrohub.io/uns/broker/value"
)

// store is a historian whose behaviour a test chooses; what it was given lands in
// rows unless the behaviour says otherwise.
type store struct {
	mu       sync.Mutex
	behave   func(call int, values []*value.Value) error // nil: store; called without mu
	calls    int
	position uint64
	rows     map[string]uint64 // row key to position
	batches  [][]string        // bodies of each batch stored
}

func rowKey(v *value.Value) string {
	if v.Timed {
		return fmt.Sprint(v.Topic, "|", v.Publisher, "|", v.Timestamp, "|", v.Quality, "|", string(v.Body))
	}
	return fmt.Sprint(v.Topic, "|", v.Publisher, "|", v.Timestamp, "|", v.RowID)
}

func (s *store) Append(ctx context.Context, values []*value.Value) error {
	s.mu.Lock()
	s.calls++
	call, behave := s.calls, s.behave
	s.mu.Unlock()
	if behave != nil {
		if err := behave(call, values); err != nil {
			return err
		}
	}
	s.land(values)
	return nil
}

// land stores a batch and sets the positions.
func (s *store) land(values []*value.Value) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rows == nil {
		s.rows = make(map[string]uint64)
	}
	var bodies []string
	for _, v := range values {
		key := rowKey(v)
		if s.rows[key] == 0 {
			s.position++
			s.rows[key] = s.position
		}
		v.Position = s.rows[key]
		bodies = append(bodies, string(v.Body))
	}
	s.batches = append(s.batches, bodies)
}

func (s *store) has(v *value.Value) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows[rowKey(v)] != 0
}

func (s *store) set(behave func(call int, values []*value.Value) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behave = behave
}

func (s *store) Read(context.Context, historian.Query) (historian.Page, error) {
	return historian.Page{}, errors.New("not read here")
}
func (s *store) Check(context.Context) error { return nil }
func (s *store) Close() error                { return nil }

// journal is a session log and retained store whose behaviour a test chooses.
type journal struct {
	state.Log

	mu       sync.Mutex
	behave   func(records int) error // nil: take; called without mu
	taken    []*value.Value
	appends  int
	put      func(n int) error
	kept     map[string]*value.Value
	puts     int
	openedAs string
}

// opener gives out the journal as every workspace's log.
type opener struct{ j *journal }

func (o opener) Log(_ context.Context, id string) (state.Log, error) {
	j := o.j
	j.mu.Lock()
	defer j.mu.Unlock()
	j.openedAs = id
	return j, nil
}

func (j *journal) Append(_ context.Context, records [][]byte) (uint64, error) {
	j.mu.Lock()
	behave := j.behave
	j.appends++
	j.mu.Unlock()
	if behave != nil {
		if err := behave(len(records)); err != nil {
			return 0, err
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	first := uint64(len(j.taken) + 1)
	for _, r := range records {
		v, err := value.DecodeRecord(append([]byte(nil), r...))
		if err != nil {
			return 0, err
		}
		j.taken = append(j.taken, v)
	}
	return first, nil
}

func (j *journal) Put(_ context.Context, values []*value.Value) error {
	j.mu.Lock()
	put := j.put
	j.puts++
	j.mu.Unlock()
	if put != nil {
		if err := put(len(values)); err != nil {
			return err
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.kept == nil {
		j.kept = make(map[string]*value.Value)
	}
	for _, v := range values {
		if len(v.Payload) == 0 {
			delete(j.kept, v.Name)
		} else {
			j.kept[v.Name] = v
		}
	}
	return nil
}

func (j *journal) bodies() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return bodies(j.taken)
}

func bodies(values []*value.Value) string {
	var b []string
	for _, v := range values {
		b = append(b, string(v.Body))
	}
	return strings.Join(b, " ")
}

// audience records live copies and answers what is wanted.
type audience struct {
	mu         sync.Mutex
	live       []*value.Value
	flushes    int
	generation atomic.Uint64
	wanted     atomic.Pointer[func(*value.Value) bool]
}

func (a *audience) Deliver(batch []*value.Value) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.live = append(a.live, batch...)
}

func (a *audience) Flush() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.flushes++
}

func (a *audience) Wanted(v *value.Value) bool {
	w := a.wanted.Load()
	return w != nil && (*w)(v)
}

func (a *audience) Generation() uint64 { return a.generation.Load() }

// want changes the index.
func (a *audience) want(w func(*value.Value) bool) {
	a.wanted.Store(&w)
	a.generation.Add(1)
}

func everything(v *value.Value) bool { return v.QoS > 0 }

// data returns the live copies of values, without alerts and errors.
func (a *audience) data() []*value.Value {
	a.mu.Lock()
	defer a.mu.Unlock()
	var d []*value.Value
	for _, v := range a.live {
		if !topic.Reserved(v.Topic) {
			d = append(d, v)
		}
	}
	return d
}

// notices returns the payloads of alerts or errors.
func (a *audience) notices(kind string) []*value.Value {
	a.mu.Lock()
	defer a.mu.Unlock()
	var d []*value.Value
	for _, v := range a.live {
		if strings.HasPrefix(v.Topic, kind+"/") {
			d = append(d, v)
		}
	}
	return d
}

// replicas is an audience that other replicas have a part in: live copies arrive
// there when the test says so, and what is wanted is certain when it says so.
type replicas struct {
	*audience
	// send is what DeliverLinked does beside Deliver; nil: nobody else wants it.
	// Called without a lock.
	send   func(batch []*value.Value, arrived func()) bool
	unsure atomic.Bool
	hasLog atomic.Bool
}

func (r *replicas) Deliver([]*value.Value) { panic("Deliver of a Linked") }

func (r *replicas) DeliverLinked(batch []*value.Value, arrived func()) bool {
	r.audience.Deliver(batch)
	return r.send != nil && r.send(batch, arrived)
}

func (r *replicas) Fresh() bool { return !r.unsure.Load() }

func (r *replicas) HasLog(workspace string) bool { return workspace == "acme" && r.hasLog.Load() }

// device is one connection: its outcomes in the order they came.
type device struct {
	mu         sync.Mutex
	slots      []uint64
	outcomes   map[uint64]Outcome
	unresolved []uint64
	flushes    int
	unflushed  int
	twice      bool
	on         func(slot uint64, o Outcome)
}

func (d *device) Complete(slot uint64, o Outcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.outcomes == nil {
		d.outcomes = make(map[uint64]Outcome)
	}
	if _, have := d.outcomes[slot]; have {
		d.twice = true
	}
	d.outcomes[slot] = o
	d.slots = append(d.slots, slot)
	d.unflushed++
	if d.on != nil {
		d.on(slot, o)
	}
}

func (d *device) Flush() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.flushes++
	d.unflushed = 0
}

func (d *device) Unresolved(slot uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unresolved = append(d.unresolved, slot)
}

// said is the outcomes in the order given: "0:ok 1:log_timeout".
func (d *device) said() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var s []string
	for _, slot := range d.slots {
		s = append(s, fmt.Sprintf("%d:%s", slot, strings.Replace(d.outcomes[slot].Refusal.String(), "none", "ok", 1)))
	}
	return strings.Join(s, " ")
}
