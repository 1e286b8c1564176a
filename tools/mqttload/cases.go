package main

import (
	"time"

	"maestrohub.io/uns/tools/mqttload/scenario"
)

// benchCase is one row of the comparison.
type benchCase struct {
	name     string
	scenario runner
	measures []measure
}

// measure is one figure of a result and how it reads.
type measure struct {
	name, unit string
	of         func(scenario.Result) float64
	lessBetter bool
	// floor: the disk's fdatasync is set beside it.
	floor bool
}

var (
	acksPerSecond       = measure{name: "acknowledged", unit: "/s", of: func(r scenario.Result) float64 { return r.AckRate }}
	deliveriesPerSecond = measure{name: "delivered", unit: "/s", of: func(r scenario.Result) float64 { return r.DeliverRate }}
	cyclesPerSecond     = measure{name: "cycles", unit: "/s", of: func(r scenario.Result) float64 { return r.CycleRate }}
	cpuPerValue         = measure{name: "broker CPU", unit: "µs a value", of: func(r scenario.Result) float64 { return r.CPUPerValue }, lessBetter: true}
	ackP50              = measure{name: "ack p50", unit: "ms", of: func(r scenario.Result) float64 { return r.Ack.P50 }, lessBetter: true, floor: true}
	ackP99              = measure{name: "ack p99", unit: "ms", of: func(r scenario.Result) float64 { return r.Ack.P99 }, lessBetter: true}
	deliveryP50         = measure{name: "delivery p50", unit: "ms", of: func(r scenario.Result) float64 { return r.Delivery.P50 }, lessBetter: true}
	perConnection       = measure{name: "memory", unit: "bytes a connection", of: func(r scenario.Result) float64 { return r.PerConnection }, lessBetter: true}
	hop                 = measure{name: "more elsewhere, p50", unit: "ms", of: func(r scenario.Result) float64 { return max(r.Elsewhere.P50-r.Delivery.P50, 0.001) }, lessBetter: true}
	ackOfPaced          = measure{name: "ack p50", unit: "ms", of: func(r scenario.Result) float64 { return r.Ack.P50 }, lessBetter: true}
	cpuPerCycle         = measure{name: "broker CPU", unit: "µs a cycle", of: func(r scenario.Result) float64 { return r.CPUPerValue }, lessBetter: true}
	drainRate           = measure{name: "drained", unit: "/s", of: func(r scenario.Result) float64 { return r.DeliverRate }}
	drained             = measure{name: "drained in", unit: "s", of: func(r scenario.Result) float64 { return r.Seconds }, lessBetter: true}
)

// cases are the rows, each measured for d.
func cases(d time.Duration) []benchCase {
	flow := func(name string, f scenario.Flow, m ...measure) benchCase {
		f.Name, f.Payload, f.Warmup, f.Duration = name, 256, time.Second, d
		return benchCase{name, f, m}
	}
	return []benchCase{
		flow("acks, QoS 1, 10 publishers × 100 in flight", scenario.Flow{Publishers: 10, QoS: 1, Window: 100}, acksPerSecond, cpuPerValue),
		flow("acks, QoS 1, 10 publishers × 1 in flight", scenario.Flow{Publishers: 10, QoS: 1, Window: 1}, acksPerSecond),
		flow("acks, QoS 1, paced at 2,000/s", scenario.Flow{Publishers: 10, QoS: 1, Window: 100, Rate: 2000}, ackP50, ackP99),
		flow("1 to 1, QoS 0", scenario.Flow{Publishers: 1, Subscribers: 1, Window: 1000}, deliveriesPerSecond, cpuPerValue),
		flow("1 to 1, QoS 1", scenario.Flow{Publishers: 1, Subscribers: 1, QoS: 1, Window: 100}, deliveriesPerSecond, cpuPerValue),
		flow("1 to 1, QoS 1, paced at 2,000/s", scenario.Flow{Publishers: 1, Subscribers: 1, QoS: 1, Window: 1000, Rate: 2000}, deliveryP50, cpuPerValue),
		flow("1 to 1, QoS 2", scenario.Flow{Publishers: 1, Subscribers: 1, QoS: 2, Window: 100}, deliveriesPerSecond),
		flow("1 to 50, QoS 0", scenario.Flow{Publishers: 1, Subscribers: 50, Window: 200}, deliveriesPerSecond, cpuPerValue),
		flow("1 to 50, QoS 1", scenario.Flow{Publishers: 1, Subscribers: 50, QoS: 1, Window: 100}, deliveriesPerSecond, cpuPerValue),
		flow("50 to 1, QoS 1", scenario.Flow{Publishers: 50, Subscribers: 1, QoS: 1, Window: 20}, deliveriesPerSecond),
		{"connect, subscribe, disconnect, clean", scenario.Churn{Clients: 64, Warmup: time.Second, Duration: d}, []measure{cyclesPerSecond}},
		{"connect, subscribe, disconnect, persistent", scenario.Churn{Clients: 64, Persistent: true, Warmup: time.Second, Duration: d}, []measure{cyclesPerSecond}},
		{"idle connections, 4,000", scenario.Idle{Connections: 4000, Settle: 3 * time.Second}, []measure{perConnection}},
		{"idle connections, 4,000, one subscription each", scenario.Idle{Connections: 4000, Subscribe: true, Settle: 3 * time.Second}, []measure{perConnection}},
		{"resume, 100 sessions × 1,000 values", scenario.Resume{Sessions: 100, Values: 1000, QoS: 1, Payload: 256}, []measure{drained}},
	}
}
