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
	devices []*device
	mu      sync.Mutex
	random  *rand.Rand      // guarded by mu
	sent    map[string]sent // by number; guarded by mu
	trouble func() bool
}

type sent struct {
	device *device
	slot   uint64
	topic  string
	qos    byte
}

func TestNothingIsAcknowledgedUnkeptWhateverTheStoresDo(t *testing.T) {
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
			inBubble(t, func(t *testing.T) { runHistory(t, seed) })
		})
	}
}

// IntN is a random number below n; the runs of one seed differ only by scheduling.
func (h *history) IntN(n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.random.IntN(n)
}

func runHistory(t *testing.T, seed uint64) {
	h := &history{random: rand.New(rand.NewPCG(seed, 0)), sent: make(map[string]sent)}
	h.rig = newRig(t, func(o *Options) {
		o.Room = 40 * (entryBytes + 64)
		o.BatchValues = 1 + h.IntN(20)
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

	for n := range 6 {
		d := &device{}
		d.on = func(slot uint64, o Outcome) { h.check(d, slot, o) }
		h.devices = append(h.devices, d)
		go h.live(d, n, fair)
	}
	time.Sleep(12 * time.Minute)
	synctest.Wait()
	h.end()
}

// live is one device's life: it publishes, in bursts, until the end.
func (h *history) live(d *device, number int, fair func() bool) {
	topics := []string{"a", "bb", "kept/c", "ddd"}
	for n := 0; !fair(); n++ {
		topic := topics[h.IntN(len(topics))]
		payload := fmt.Sprintf(`{"value":%d,"timestamp":%d}`, number*1_000_000+n, 1000+n)
		qos := byte(h.IntN(3))
		if h.IntN(40) == 0 && topic == "kept/c" {
			payload = ""
		}
		key := fmt.Sprint(number*1_000_000 + n)
		h.mu.Lock()
		h.sent[key] = sent{d, uint64(n), topic, qos}
		h.mu.Unlock()
		h.Publish(Publish{Name: "mHv1.0/acme/_ingress/press/" + topic, QoS: qos, Payload: []byte(payload),
			ClientID: key, Grants: h.grants, Done: d, Slot: uint64(n), Ordered: number == 5})
		if h.IntN(4) == 0 {
			time.Sleep(time.Duration(h.IntN(3000)) * time.Millisecond)
		}
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
	if o.Refusal != 0 {
		return
	}
	key, s := h.of(d, slot)
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
}

func (h *history) of(d *device, slot uint64) (string, sent) {
	for number, have := range h.devices {
		if have == d {
			key := fmt.Sprint(uint64(number)*1_000_000 + slot)
			h.mu.Lock()
			defer h.mu.Unlock()
			return key, h.sent[key]
		}
	}
	return "", sent{}
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
	stored, refused := 0, map[Refusal]int{}
	for number, d := range h.devices {
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
		if _, ok := s.device.outcomes[s.slot]; !ok {
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
// them: live, all of them and once; in the log, where one may be found wanted when
// those of other topics are there already, those of each topic.
func (h *history) inOrder(where string, values []*value.Value, live bool) {
	last := make(map[string]int)
	seen := make(map[string]bool)
	for _, v := range values {
		n, err := strconv.Atoi(v.ClientID)
		if err != nil {
			h.t.Fatal(err)
		}
		if seen[v.ClientID] {
			if live {
				h.t.Errorf("%s: %d twice", where, n)
			}
			continue
		}
		seen[v.ClientID] = true
		stream := fmt.Sprint(n / 1_000_000)
		if !live {
			stream += v.Topic
		}
		if n < last[stream] {
			h.t.Errorf("%s: %d after %d: %s", where, n, last[stream], strings.TrimSpace(v.Topic))
		}
		last[stream] = n
	}
}
