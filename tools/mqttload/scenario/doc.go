// Package scenario is what the load generator can do to a broker: publish and
// deliver under a window or at a pace (Flow), connect and leave (Churn), stay and
// do nothing (Idle), come back to what was kept (Resume), come back all at once
// (Storm), live through the broker's death (Failover).
//
// A scenario runs on one thread over package wire, against any MQTT broker that a
// Target describes, and gives a Result: rates, latencies, the broker's CPU time
// and memory as the kernel counts them, and what was lost, repeated or out of
// order.
//
// Latency is counted without coordinated omission: at a pace, every value has an
// intended send time that the schedule alone decides, and a value that had to
// wait because the broker was slow counts from then. Under a window there is no
// schedule, so the latency of such a run is a service time under full load and
// says little; compare its rate.
package scenario
