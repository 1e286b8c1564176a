package server

import (
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"maestrohub.io/uns/broker/ingest"
	"maestrohub.io/uns/broker/mqtt"
)

// A single node whose historian, log or retained store is away when a device is lost keeps
// the will and sends it once they are back, as one row; what is refused for good is not
// tried again.
func TestAWillOfASingleNodeWaitsForTheStore(t *testing.T) {
	const passing = 7 // tries
	for what, c := range map[string]struct {
		refusal  ingest.Refusal
		tries    int
		disabled bool
		delay    uint32
		sent     int
	}{
		"the historian is away":      {refusal: ingest.HistorianUnavailable, tries: passing, sent: 1},
		"after its delay":            {refusal: ingest.HistorianUnavailable, tries: passing, sent: 1, delay: 30},
		"no room":                    {refusal: ingest.NoRoom, tries: passing, sent: 1},
		"the log is away":            {refusal: ingest.LogTimeout, tries: passing, sent: 1},
		"the retained store is away": {refusal: ingest.RetainedTimeout, tries: passing, sent: 1},
		"let go with others":         {refusal: ingest.Shed, tries: passing, sent: 1},
		"not of the schema":          {refusal: ingest.Unstorable, tries: 1},
		"disabled meanwhile":         {disabled: true, delay: 30},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				secret := r.add("press")
				synctest.Wait()
				r.chain.answer = func(n int) (o ingest.Outcome) {
					if c.refusal != 0 && n <= c.tries {
						o.Refusal = c.refusal
					}
					return o
				}
				_, drop := r.dial(mqtt.Connect{ClientID: "a", CleanStart: true, SessionExpiry: 600, Username: "press", Password: []byte(secret),
					Will: &mqtt.Will{Topic: "mHv1.0/plant/_ingress/press/state", Payload: []byte("lost"), QoS: 1, Delay: c.delay}})
				drop()
				if c.disabled {
					synctest.Wait()
					if err := r.elsewhere.Disable(t.Context(), "press"); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				var sent, refused dto.Metric
				_, _ = r.server.metrics.WillsPublished.Write(&sent), r.server.metrics.WillsRefused.Write(&refused)
				r.chain.mu.Lock()
				defer r.chain.mu.Unlock()
				if len(r.chain.taken) != c.sent || len(r.chain.seen) != c.tries+c.sent {
					t.Errorf("tried %d times, taken %d times; want %d and %d", len(r.chain.seen), len(r.chain.taken), c.tries+c.sent, c.sent)
				}
				if got := sent.GetCounter().GetValue(); int(got) != c.sent {
					t.Errorf("%v counted as sent, want %d", got, c.sent)
				}
				if got := refused.GetCounter().GetValue(); int(got) != 1-c.sent {
					t.Errorf("%v counted as refused, want %d", got, 1-c.sent)
				}
				for _, p := range r.chain.seen {
					if p.Timestamp == 0 || p.Timestamp != r.chain.seen[0].Timestamp || p.RowID != r.chain.seen[0].RowID {
						t.Errorf("tried at %d as row %d, first at %d as row %d: more than one row", p.Timestamp, p.RowID, r.chain.seen[0].Timestamp, r.chain.seen[0].RowID)
					}
				}
			})
		})
	}
}
