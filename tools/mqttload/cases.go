package main

import (
	"time"

	"maestrohub.io/uns/tools/mqttload/scenario"
)

// benchCase is one case of the comparison, the same for every broker.
type benchCase struct {
	name     string
	scenario runner
	measures []measure
	// turns are as many as it gets at most, because it takes long or hardly varies; 0: as
	// many as there are rounds.
	turns int
	// fresh: a broker that has worked before would show something else.
	fresh bool
	why   why
}

// why says where a peer may be ahead of this broker, and for what: printed only beside
// figures in which one is.
type why struct{ alone, replicas string }

// cases are all cases, each measured for d where that is free. What weighs the
// processes comes first, before they have worked, what kills one last.
func cases(d time.Duration) []benchCase {
	flow := func(name string, f scenario.Flow, w why, m ...measure) benchCase {
		f.Name, f.Payload, f.Warmup, f.Duration = name, 256, warmup, d
		return benchCase{name: name, scenario: f, measures: m, why: w}
	}
	churn := func(c scenario.Churn) benchCase {
		c.Clients, c.Warmup, c.Duration = 64, warmup, d
		return benchCase{name: c.Name, why: connects, measures: []measure{cyclesPerSecond, cpuPerCycle}, scenario: c}
	}
	storm := func(name string, clients int, persistent bool, w why) benchCase {
		return benchCase{name: name, turns: 1, why: w, measures: []measure{backIn, backP50},
			scenario: scenario.Storm{Name: name, Clients: clients, Persistent: persistent}}
	}
	return []benchCase{
		{name: "idle connections, 2,000", turns: 1, fresh: true, measures: []measure{perConnection}, why: why{byConnection, byConnection + "; two replicas, PostgreSQL and three NATS servers are weighed together"},
			scenario: scenario.Idle{Name: "idle connections, 2,000", Connections: 2000, Settle: 2 * time.Second}},
		flow("acks, QoS 1, 10 publishers × 100 in flight", scenario.Flow{Publishers: 10, QoS: 1, Window: 100}, waits, acksPerSecond, cpuPerValue),
		flow("acks, QoS 1, 10 publishers × 1 in flight", scenario.Flow{Publishers: 10, QoS: 1, Window: 1}, waits, acksPerSecond),
		flow("acks, QoS 1, paced at 500/s", scenario.Flow{Publishers: 10, QoS: 1, Window: 100, Rate: 500}, waits, ackP50, ackP99),
		flow("acks, QoS 2, 10 publishers × 20 in flight", scenario.Flow{Publishers: 10, QoS: 2, Window: 20}, waits, acksPerSecond, cpuPerValue),
		flow("acks, QoS 2, paced at 500/s", scenario.Flow{Publishers: 10, QoS: 2, Window: 100, Rate: 500}, waits, ackP50, ackP99),
		flow("1 to 1, QoS 0", scenario.Flow{Publishers: 1, Subscribers: 1, Window: 1000}, stores, deliveriesPerSecond, cpuPerValue),
		flow("fan-out, 1 to 50, QoS 1", scenario.Flow{Publishers: 1, Subscribers: 50, QoS: 1, Window: 100}, stores, deliveriesPerSecond, cpuPerValue),
		flow("fan-in, 50 to 1, QoS 1", scenario.Flow{Publishers: 50, Subscribers: 1, QoS: 1, Window: 20}, stores, deliveriesPerSecond, cpuPerValue),
		flow("10 to 1, QoS 1, persistent session, 100 in flight each", scenario.Flow{Publishers: 10, Subscribers: 1, QoS: 1, Persistent: true, Window: 100}, keeps, deliveriesPerSecond, cpuPerValue),
		flow("1 to 1, QoS 2, 20 in flight", scenario.Flow{Publishers: 1, Subscribers: 1, QoS: 2, Window: 20}, stores, deliveriesPerSecond, cpuPerValue),
		flow("1 to 1, QoS 2, persistent session, 20 in flight", scenario.Flow{Publishers: 1, Subscribers: 1, QoS: 2, Persistent: true, Window: 20}, keeps, deliveriesPerSecond, cpuPerValue),
		flow("live, QoS 1, two subscribers, paced at 200/s", scenario.Flow{Publishers: 1, Subscribers: 2, QoS: 1, Beside: true, Window: 1000, Rate: 200}, stores, deliveryP50, deliveryP99, hop),
		churn(scenario.Churn{Name: "connect, disconnect, clean", Bare: true}),
		churn(scenario.Churn{Name: "connect, subscribe, disconnect, clean"}),
		churn(scenario.Churn{Name: "connect, subscribe, disconnect, persistent", Persistent: true}),
		storm("reconnect storm, 2,000 clean clients", 2000, false, connects),
		storm("reconnect storm, 200 persistent sessions", 200, true, connects),
		{name: "resume, 100 sessions × 100 values", turns: 1, measures: []measure{drainRate, cpuPerValue}, why: why{"most of so short a drain is the sessions' sign-in, with a secret that is checked", "a session's place and log are records in NATS: three copies of each change are waited for"},
			scenario: scenario.Resume{Name: "resume, 100 sessions × 100 values", Sessions: 100, Values: 100, QoS: 1, Payload: 256}},
		{name: "failover, 5 devices at 200/s, kill -9", turns: 2, measures: []measure{ackGap, deliveryGap, neverDelivered, neverKept}, why: outage,
			scenario: scenario.Failover{Name: "failover, 5 devices at 200/s, kill -9", Devices: 5, Rate: 200, Payload: 256, Warmup: time.Second, Settle: time.Second}},
	}
}

const warmup = 500 * time.Millisecond

const byConnection = "a connection is a goroutine with its stack, the Go runtime's socket and the session; mosquitto, in C with one event loop, needs none of them"

var (
	waits = why{
		alone:    "an acknowledgment waits for a sync of the disk; the peers, but for the synced one, acknowledge from memory or the page cache, so with little in flight they answer sooner",
		replicas: "an acknowledgment waits for a commit in PostgreSQL that is synced, over a socket; the peers acknowledge from memory or the page cache, mosquitto and mochi-mqtt on one machine only",
	}
	stores = why{
		alone:    "every value, QoS 0 included, is read, checked and stored and synced before a subscriber gets it; the peers pass it on as it comes",
		replicas: "every value, QoS 0 included, is read, checked and committed in PostgreSQL before a subscriber gets it, and crosses to the other replica; the peers pass it on as it comes",
	}
	keeps = why{
		alone:    "every value is stored and synced before the subscriber gets it",
		replicas: "every value is committed in PostgreSQL and then appended to the session's log at three NATS servers, one after the other; mosquitto and mochi-mqtt keep it in the memory of one process",
	}
	connects = why{
		alone:    "a client signs in with a secret that is checked, which peers of one process were told not to ask for; mosquitto has no goroutine to start",
		replicas: "who owns a client id is a record in NATS that every CONNECT claims and every end gives back, three copies each, and a filter is told to every replica before its SUBACK; mosquitto and mochi-mqtt ask nobody",
	}
	outage = why{
		alone:    "the process is started again at once here, on a machine that is well; opening the historian takes longer than opening nothing",
		replicas: "a session that was at the dead replica is claimed anew, with several writes to three copies, after that replica was asked in vain to let it go; a broker of one process is merely started again here, on a machine that is well; nats-server's gap depends on whether the server that dies leads the stream of values",
	}
)
