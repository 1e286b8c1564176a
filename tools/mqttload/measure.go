package main

import (
	"math"

	"maestrohub.io/uns/tools/mqttload/scenario"
)

// measure is one figure of a result and how it reads.
type measure struct {
	name, unit string
	of         func(scenario.Result) float64 // 0: not measured, unless it is a count
	lessBetter bool
	// floor: the disk's fdatasync is set beside it.
	floor bool
	// count: 0 is a figure, and there are no ratios.
	count bool
	// span: turns differ in kind, so the least and the most are shown and not the middle.
	span bool
	// apart: of a broker with several addresses; no row where the first broker has one, and
	// no ratios: the difference of two latencies may be within their noise.
	apart bool
}

var (
	acksPerSecond       = measure{name: "acknowledged", unit: "/s", of: func(r scenario.Result) float64 { return r.AckRate }}
	deliveriesPerSecond = measure{name: "delivered", unit: "/s", of: func(r scenario.Result) float64 { return r.DeliverRate }}
	cyclesPerSecond     = measure{name: "cycles", unit: "/s", of: func(r scenario.Result) float64 { return r.CycleRate }}
	drainRate           = measure{name: "drained", unit: "/s", of: func(r scenario.Result) float64 { return r.DeliverRate }}
	cpuPerValue         = measure{name: "broker CPU", unit: "µs a value", of: func(r scenario.Result) float64 { return r.CPUPerValue }, lessBetter: true}
	cpuPerCycle         = measure{name: "broker CPU", unit: "µs a cycle", of: func(r scenario.Result) float64 { return r.CPUPerValue }, lessBetter: true}
	ackP50              = measure{name: "ack p50", unit: "ms", of: func(r scenario.Result) float64 { return r.Ack.P50 }, lessBetter: true, floor: true}
	ackP99              = measure{name: "ack p99", unit: "ms", of: func(r scenario.Result) float64 { return r.Ack.P99 }, lessBetter: true}
	deliveryP50         = measure{name: "delivery p50", unit: "ms", of: func(r scenario.Result) float64 { return r.Delivery.P50 }, lessBetter: true}
	deliveryP99         = measure{name: "delivery p99", unit: "ms", of: func(r scenario.Result) float64 { return r.Delivery.P99 }, lessBetter: true}
	perConnection       = measure{name: "memory", unit: "bytes a connection", of: func(r scenario.Result) float64 { return r.PerConnection }, lessBetter: true}
	backIn              = measure{name: "all back in", unit: "s", of: func(r scenario.Result) float64 { return r.Seconds }, lessBetter: true}
	backP50             = measure{name: "half back in", unit: "s", of: func(r scenario.Result) float64 { return r.Connect.P50 / 1000 }, lessBetter: true}
	ackGap              = measure{name: "no acknowledgment for", unit: "s", of: func(r scenario.Result) float64 { return r.AckGap / 1000 }, lessBetter: true, span: true}
	deliveryGap         = measure{name: "no delivery for", unit: "s", of: func(r scenario.Result) float64 { return r.DeliveryGap / 1000 }, lessBetter: true, span: true}
	neverDelivered      = measure{name: "acknowledged, never delivered", unit: "values", of: func(r scenario.Result) float64 { return float64(r.Missing) }, count: true}
	neverKept           = measure{name: "acknowledged, not kept for a session that was away", unit: "values", of: func(r scenario.Result) float64 { return float64(r.Forgotten) }, count: true}
	// Latencies of the same values, so noise may make the way elsewhere the shorter one.
	hop = measure{name: "more elsewhere, p50", unit: "ms", of: func(r scenario.Result) float64 {
		if r.Elsewhere.P50 == 0 {
			return 0
		}
		return max(r.Elsewhere.P50-r.Delivery.P50, 0.001)
	}, lessBetter: true, apart: true}
)

// ratio is how far the first broker is ahead of another: 2 means twice as good.
func (m measure) ratio(first, other float64) float64 {
	if m.count || m.apart {
		return math.NaN()
	}
	if m.lessBetter {
		return other / first
	}
	return first / other
}
