package ingest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/value"
)

// A history is one random run: devices publish to a historian that fails, hangs
// and answers falsely, a log that is slow and forgets answers, and an index that
// moves. Everything is checked at the moment of each outcome and at the end.
type history struct {
	*rig
	trouble func() bool
	mu      sync.Mutex
	devices map[*device]int // connections, by the number of their device; guarded by mu
	random  *rand.Rand      // guarded by mu
	sent    map[string]sent // by number; guarded by mu
	// faulty are those once refused for their own sake: what is behind them goes on.
	faulty map[string]bool // guarded by mu
	// world is what there is beside this replica; nil: nothing.
	world *world
}

type sent struct {
	on    *device // the connection it was last sent on
	slot  uint64
	topic string
	qos   byte
}

// oldDevice is the number of the device that speaks MQTT 3.1.1 at QoS 1: a
// refusal for time's sake ends its connection, and on the next it sends again
// what was not acknowledged, in order.
const oldDevice = 5

var testTopics = []string{"a", "bb", "kept/c", "ddd"}

func TestNothingIsAcknowledgedUnkeptWhateverTheStoresDo(t *testing.T) {
	eachSeed(t, func(t *testing.T, seed uint64) { runHistory(t, seed, nil) })
}

func eachSeed(t *testing.T, run func(t *testing.T, seed uint64)) {
	seeds := []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}
	if s := os.Getenv("INGEST_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds = []uint64{n}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T) { run(t, seed) })
		})
	}
}

// IntN is a random number below n; the runs of one seed differ only by scheduling.
func (h *history) IntN(n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.random.IntN(n)
}

func runHistory(t *testing.T, seed uint64, w *world) {
	h := &history{world: w, random: rand.New(rand.NewPCG(seed, 0)), sent: make(map[string]sent), devices: make(map[*device]int), faulty: make(map[string]bool)}
	h.rig = newRig(t, func(o *Options) {
		o.Room = 40 * (entryBytes + 64)
		o.BatchValues = 1 + h.IntN(20)
		w.join(h, o)
	})
	// Weather changes every few seconds; the last tenth of a run is fair.
	start := time.Now()
	fair := func() bool { return time.Since(start) > 9*time.Minute }
	var weather, logWeather atomic.Int64
	go func() {
		for !fair() {
			weather.Store(int64(h.IntN(6)))
			logWeather.Store(int64(h.IntN(4)))
			time.Sleep(time.Duration(h.IntN(20000)) * time.Millisecond)
			if h.IntN(3) == 0 {
				n := h.IntN(4)
				h.audience.want(func(v *value.Value) bool { return v.QoS > 0 && len(v.Topic)%4 <= n })
			}
		}
	}()
	h.trouble = func() bool { return !fair() && h.IntN(3) < int(weather.Load()) }
	h.historian.set(h.store)
	h.log.behave = func(int) error { return h.append(!fair() && h.IntN(3) < int(logWeather.Load())) }
	h.log.put = func(int) error { return h.append(!fair() && h.IntN(3) < int(logWeather.Load())) }

	if w != nil {
		go w.run(fair)
	}
	for number := range oldDevice {
		go h.live(number, fair)
	}
	go h.liveOld(fair)
	time.Sleep(12 * time.Minute)
	synctest.Wait()
	h.end()
}

// connect returns a new connection of a device.
func (h *history) connect(number int) *device {
	d := &device{}
	d.on = func(slot uint64, o Outcome) { h.check(d, slot, o) }
	h.mu.Lock()
	defer h.mu.Unlock()
	h.devices[d] = number
	return d
}

// live is one device's life: it publishes, in bursts, until the end.
func (h *history) live(number int, fair func() bool) {
	d := h.connect(number)
	for n := 0; !fair(); n++ {
		topic := testTopics[h.IntN(len(testTopics))]
		payload := fmt.Sprintf(`{"value":%d,"timestamp":%d}`, number*1_000_000+n, 1000+n)
		if h.IntN(40) == 0 && topic == "kept/c" {
			payload = ""
		}
		h.send(d, number, n, topic, byte(h.IntN(3)), payload)
		h.rest()
	}
}

// liveOld is the life of the old device.
func (h *history) liveOld(fair func() bool) {
	for next := 0; !fair(); {
		d := h.connect(oldDevice)
		n := next
		for ; !fair() && d.ended() < 0; n++ {
			h.send(d, oldDevice, n, testTopics[n%len(testTopics)], 1, fmt.Sprintf(`{"value":%d,"timestamp":%d}`, oldDevice*1_000_000+n, 1000+n))
			h.rest()
		}
		for d.count() < n-next { // until everything of the connection is settled
			time.Sleep(100 * time.Millisecond)
		}
		if next = d.ended(); next < 0 {
			return
		}
	}
}

// ended returns the first publish of a connection that was refused for time's sake
// or by a fence, which closes it.
func (d *device) ended() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	first := -1
	for slot, o := range d.outcomes {
		if (o.Refusal.Passing() || o.Refusal == Shed) && (first < 0 || int(slot) < first) {
			first = int(slot)
		}
	}
	return first
}

func (d *device) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.outcomes)
}

func (h *history) send(d *device, number, n int, topic string, qos byte, payload string) {
	key := fmt.Sprint(number*1_000_000 + n)
	h.mu.Lock()
	h.sent[key] = sent{d, uint64(n), topic, qos}
	h.mu.Unlock()
	h.Publish(Publish{Name: "mHv1.0/acme/_ingress/press/" + topic, QoS: qos, Payload: []byte(payload),
		ClientID: key, Grants: h.grants, Done: d, Slot: uint64(n), Ordered: number == oldDevice})
}

func (h *history) rest() {
	if h.IntN(4) == 0 {
		time.Sleep(time.Duration(h.IntN(3000)) * time.Millisecond)
	}
}

// store is the historian: sometimes it fails, hangs, refuses one value, or says
// that its time is up and stores all the same, later, setting positions.
func (h *history) store(_ int, values []*value.Value) error {
	time.Sleep(time.Duration(h.IntN(30)) * time.Millisecond)
	if !h.trouble() {
		return nil
	}
	switch h.IntN(6) {
	case 0:
		return &historian.ValueError{Index: h.IntN(len(values)), Err: errBroken}
	case 1:
		return errBroken
	case 2:
		time.Sleep(time.Duration(h.IntN(40)) * time.Second) // hangs, then lands
		return nil
	case 3:
		go func() {
			time.Sleep(time.Duration(h.IntN(20)) * time.Second)
			h.historian.land(values)
		}()
		return context.DeadlineExceeded
	case 4:
		time.Sleep(time.Duration(h.IntN(20)) * time.Second)
		return context.Canceled
	}
	return unavailable(0, nil)
}

// append is the log's and the retained store's behaviour.
func (h *history) append(trouble bool) error {
	time.Sleep(time.Duration(h.IntN(10)) * time.Millisecond)
	if !trouble {
		return nil
	}
	time.Sleep(time.Duration(h.IntN(16)) * time.Second)
	return []error{nil, state.ErrUnknown, state.ErrUnavailable}[h.IntN(3)]
}

// check holds an outcome against what it promises, at the moment it is given.
func (h *history) check(d *device, slot uint64, o Outcome) {
	key, s := h.of(d, slot)
	if o.Refusal == 0 {
		h.world.leaves("acknowledgment of " + key)
	}
	if o.Refusal != 0 {
		if !o.Refusal.Passing() && o.Refusal != Shed {
			h.mu.Lock()
			h.faulty[key] = true
			h.mu.Unlock()
		}
		return
	}
	if s.qos == 0 {
		return
	}
	v := h.copy(key)
	if v == nil {
		h.t.Errorf("%s (QoS %d on %s) acknowledged before its live copy left", key, s.qos, s.topic)
		return
	}
	if len(v.Payload) > 0 && !h.historian.has(v) {
		h.t.Errorf("%s acknowledged and not in the historian", key)
	}
	if h.audience.Wanted(v) && !h.logged(key) {
		h.t.Errorf("%s acknowledged, wanted and not in the log", key)
	}
	h.world.check(key, v)
}

func (h *history) of(d *device, slot uint64) (string, sent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := fmt.Sprint(uint64(h.devices[d])*1_000_000 + slot)
	return key, h.sent[key]
}

// copy finds a live copy by its publish.
func (h *history) copy(key string) *value.Value {
	for _, v := range slices.Backward(h.audience.data()) {
		if v.ClientID == key {
			return v
		}
	}
	return nil
}

func (h *history) logged(key string) bool {
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	return slices.ContainsFunc(h.log.taken, func(v *value.Value) bool { return v.ClientID == key })
}

// end checks what can only be said of the whole run.
func (h *history) end() {
	l := h.lane("acme")
	if l.count != 0 || l.used != 0 || l.settling || l.storing {
		h.t.Errorf("the lane has not come to rest: %d values, %d bytes", l.count, l.used)
	}
	if got := h.held(); got != 0 {
		h.t.Errorf("%v values still count as held", got)
	}
	if got := h.reordered(); got != 0 {
		h.t.Errorf("%v appends counted as reordered, though values of a topic are wanted alike", got)
	}
	stored, refused := 0, map[Refusal]int{}
	for d, number := range h.devices {
		if d.twice || d.unflushed > 0 {
			h.t.Errorf("device %d: an outcome came twice (%t) or unflushed (%d)", number, d.twice, d.unflushed)
		}
		var lane []uint64
		for _, slot := range d.slots {
			switch r := d.outcomes[slot].Refusal; {
			case r == 0:
				stored++
				lane = append(lane, slot)
			default:
				refused[r]++
			}
		}
		if !slices.IsSorted(lane) {
			h.t.Errorf("device %d: acknowledgments out of order: %d", number, lane)
		}
	}
	for key, s := range h.sent {
		if _, ok := s.on.outcomes[s.slot]; !ok {
			h.t.Errorf("%s never got an outcome", key)
		}
	}
	h.inOrder("live copies", h.audience.data(), true)
	h.inOrder("log", h.log.taken, false)
	if stored < 100 || len(refused) < 3 {
		h.t.Errorf("a run that shows little: %d stored, refused %v", stored, refused)
	}
	h.t.Logf("%d stored, refused %v, %d live, %d in the log, %d batches", stored, refused, len(h.audience.data()), len(h.log.taken), len(h.historian.batches))
}

// inOrder checks that each device's values first appear in the order it sent
// them: live, all of them and once. In the log, where one may be found wanted when
// those of other topics are there already, and of a device that sent them twice,
// that goes for those of each topic.
func (h *history) inOrder(where string, values []*value.Value, live bool) {
	last := make(map[string]int)
	seen := make(map[string]bool)
	for _, v := range values {
		n, err := strconv.Atoi(v.ClientID)
		if err != nil {
			h.t.Fatal(err)
		}
		if seen[v.ClientID] {
			if live && n/1_000_000 != oldDevice {
				h.t.Errorf("%s: %d twice", where, n)
			}
			continue
		}
		seen[v.ClientID] = true
		stream := fmt.Sprint(n / 1_000_000)
		if !live || stream == fmt.Sprint(oldDevice) {
			stream += v.Topic
		}
		if h.faulty[v.ClientID] {
			continue
		}
		if n < last[stream] {
			h.t.Errorf("%s: %d after %d: %s", where, n, last[stream], strings.TrimSpace(v.Topic))
		}
		last[stream] = n
	}
}
