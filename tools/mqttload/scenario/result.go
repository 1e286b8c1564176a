package scenario

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is what one run showed. Fields that a scenario does not measure are
// zero and left out of its JSON.
type Result struct {
	Scenario string  `json:"scenario"`
	Target   string  `json:"target"`
	Seconds  float64 `json:"seconds"` // the measured part, without warm-up

	Sent      int64 `json:"sent,omitempty"`
	Acked     int64 `json:"acked,omitempty"`
	Delivered int64 `json:"delivered,omitempty"`
	Cycles    int64 `json:"cycles,omitempty"` // of churn; of a storm, the clients that came back

	Refused    int64  `json:"refused,omitempty"`   // acknowledged with an error
	Missing    int64  `json:"missing,omitempty"`   // acknowledged, never delivered
	Forgotten  int64  `json:"forgotten,omitempty"` // of a failover: missing at a session that was away
	Repeated   int64  `json:"repeated,omitempty"`
	OutOfOrder int64  `json:"outOfOrder,omitempty"`
	Stalled    bool   `json:"stalled,omitempty"` // nothing moved for stallAfter; the rest was not run
	Failure    string `json:"failure,omitempty"` // a connection that ended, and how

	AckRate     float64 `json:"ackRate,omitempty"`     // per second
	DeliverRate float64 `json:"deliverRate,omitempty"` // per second
	CycleRate   float64 `json:"cycleRate,omitempty"`   // per second

	Ack      Latency `json:"ack,omitzero"`
	Delivery Latency `json:"delivery,omitzero"`
	Connect  Latency `json:"connect,omitzero"` // of a storm, from the cut
	// Elsewhere is Delivery to subscribers at another address of the broker, where the two
	// are told apart.
	Elsewhere Latency `json:"elsewhere,omitzero"`

	// AckGap and DeliveryGap are of a failover, in milliseconds: the longest that a device
	// went without an acknowledgment, a subscriber without a value.
	AckGap      float64 `json:"ackGap,omitempty"`
	DeliveryGap float64 `json:"deliveryGap,omitempty"`
	Retries     int64   `json:"retries,omitempty"` // connection attempts that came to nothing

	// Writes are the messages written to each JetStream stream, over the whole run, warm-up
	// and connections included.
	Writes map[string]uint64 `json:"writes,omitempty"`

	CPUSeconds     float64 `json:"cpuSeconds,omitempty"`     // of the broker, user and system
	CPUPerValue    float64 `json:"cpuPerValue,omitempty"`    // microseconds per delivery, or per acknowledgment if nothing is delivered
	LoadCPUSeconds float64 `json:"loadCPUSeconds,omitempty"` // of the load generator
	RSSBefore      int64   `json:"rssBefore,omitempty"`      // bytes
	RSSAfter       int64   `json:"rssAfter,omitempty"`
	PerConnection  float64 `json:"perConnection,omitempty"` // bytes of resident memory
}

// Latency is a distribution in milliseconds.
type Latency struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

func (l Latency) String() string {
	return fmt.Sprintf("p50 %.3f  p90 %.3f  p99 %.3f  p99.9 %.3f  max %.3f ms", l.P50, l.P90, l.P99, l.P999, l.Max)
}

// newHistogram counts nanoseconds up to two minutes, to three digits.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(2*time.Minute), 3)
}

// record counts a latency; one beyond the histogram counts as its highest.
func record(h *hdrhistogram.Histogram, nanoseconds int64) {
	_ = h.RecordValue(min(max(nanoseconds, 1), h.HighestTrackableValue()))
}

func latency(h *hdrhistogram.Histogram) Latency {
	if h.TotalCount() == 0 {
		return Latency{}
	}
	at := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1e6 }
	return Latency{P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: float64(h.Max()) / 1e6}
}

// Summary returns the result for a person, one line per thing measured.
func (r *Result) Summary() string {
	s := fmt.Sprintf("%s against %s, %.1f s measured\n", r.Scenario, r.Target, r.Seconds)
	line := func(format string, a ...any) { s += fmt.Sprintf("  "+format+"\n", a...) }
	if r.Acked > 0 {
		line("acknowledged  %d, %.0f/s", r.Acked, r.AckRate)
	}
	if r.Delivered > 0 {
		line("delivered     %d, %.0f/s", r.Delivered, r.DeliverRate)
	}
	if r.Cycles > 0 {
		line("cycles        %d, %.0f/s", r.Cycles, r.CycleRate)
	}
	for _, l := range []struct {
		name string
		Latency
	}{{"ack latency", r.Ack}, {"delivery", r.Delivery}, {"elsewhere", r.Elsewhere}, {"connect", r.Connect}} {
		if l.Max > 0 {
			line("%-13s %s", l.name, l.Latency)
		}
	}
	if r.AckGap > 0 {
		line("gap           acknowledgments %.0f ms, deliveries %.0f ms", r.AckGap, r.DeliveryGap)
	}
	if r.Forgotten > 0 {
		line("forgotten     %d", r.Forgotten)
	}
	if r.Retries > 0 {
		line("tried again   %d", r.Retries)
	}
	if r.CPUPerValue > 0 {
		line("broker CPU    %.2f s, %.1f µs per value (load generator %.2f s)", r.CPUSeconds, r.CPUPerValue, r.LoadCPUSeconds)
	}
	if len(r.Writes) > 0 {
		line("written       %v", r.Writes)
	}
	if r.RSSAfter > 0 {
		line("memory        %.1f MiB before, %.1f MiB after", float64(r.RSSBefore)/(1<<20), float64(r.RSSAfter)/(1<<20))
	}
	if r.PerConnection > 0 {
		line("per connection %.0f bytes", r.PerConnection)
	}
	if r.Refused+r.Missing+r.Repeated+r.OutOfOrder > 0 {
		line("refused %d, missing %d, repeated %d, out of order %d", r.Refused, r.Missing, r.Repeated, r.OutOfOrder)
	}
	if r.Stalled {
		line("STALLED: nothing moved for %s", stallAfter)
	}
	if r.Failure != "" {
		line("FAILED: %s", r.Failure)
	}
	return s
}
