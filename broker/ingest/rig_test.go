package ingest

import (
	"testing"
	"testing/synctest"
	"time"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/broker/metrics"
	"maestrohub.io/uns/broker/model"
)

const testModel = `
openWorkspaces: true
schemas:
  temperature: {type: number, unit: °C, min: -40, max: 150}
  count: {type: integer}
  blob: {type: opaque}
workspaces:
  - slug: acme
    id: ws-acme
    bindings:
      - {topic: temp/#, schema: temperature, minQuality: uncertain, alerts: {warn: {above: 80}, critical: {above: 95}}}
      - {topic: count/#, schema: count, maxPayloadBytes: 16}
      - {topic: blob/kept, schema: blob, retain: true}
      - {topic: blob/#, schema: blob}
      - {topic: kept/#, retain: true}
`

// rig is an Ingest with everything around it in a test's hands.
type rig struct {
	*Ingest
	t         testing.TB
	historian *store
	log       *journal
	audience  *audience
	metrics   *metrics.Metrics
	grants    *access.Grants
	slot      map[*device]uint64
}

func newRig(t testing.TB, change func(*Options)) *rig {
	m, err := model.Parse([]byte(testModel))
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, historian: &store{}, log: &journal{}, audience: &audience{}, metrics: metrics.New(),
		grants: grantsFor(t, "press", "acme"), slot: make(map[*device]uint64)}
	o := Options{
		Model: func() *model.Model { return m }, Historian: r.historian, Logs: opener{r.log}, Retained: r.log,
		Live: r.audience, Wanted: r.audience, Metrics: r.metrics, LiveQoS: 1,
	}
	if change != nil {
		change(&o)
	}
	r.Ingest = New(o)
	return r
}

// newLinkedRig is a rig with other replicas.
func newLinkedRig(t testing.TB, change func(*Options)) (*rig, *replicas) {
	var others *replicas
	r := newRig(t, func(o *Options) {
		others = &replicas{audience: o.Wanted.(*audience)}
		o.Live, o.Wanted = others, others
		if change != nil {
			change(o)
		}
	})
	return r, others
}

// publish publishes to the device's inbox under its next slot.
func (r *rig) publish(d *device, name, payload string, qos byte, change ...func(*Publish)) {
	r.t.Helper()
	p := Publish{Name: "mHv1.0/acme/_ingress/press/" + name, QoS: qos, Payload: []byte(payload),
		ClientID: "press-1", Grants: r.grants, Done: d, Slot: r.slot[d]}
	r.slot[d]++
	for _, c := range change {
		c(&p)
	}
	r.Publish(p)
}

func ordered(p *Publish) { p.Ordered = true }

func (r *rig) expect(d *device, want string) {
	r.t.Helper()
	if got := d.said(); got != want {
		r.t.Errorf("outcomes %q, want %q", got, want)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.twice {
		r.t.Error("an outcome was given twice")
	}
	if d.unflushed > 0 {
		r.t.Errorf("%d outcomes were never flushed", d.unflushed)
	}
}

func (r *rig) expectLive(want string) {
	r.t.Helper()
	if got := bodies(r.audience.data()); got != want {
		r.t.Errorf("live copies %q, want %q", got, want)
	}
}

// inBubble runs a test in virtual time; goroutines and timers still at work when
// it ends fail it.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

// elapsed checks the virtual time since start.
func elapsed(t testing.TB, start time.Time, want time.Duration) {
	t.Helper()
	if got := time.Since(start); got != want {
		t.Errorf("took %s, want %s", got, want)
	}
}

// later lets virtual time pass, and everything happen that happens by then.
func later(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
