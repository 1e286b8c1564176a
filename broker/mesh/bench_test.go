package mesh

import (
	"encoding/binary"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"maestrohub.io/uns/broker/value"
)

// counting is a handler that only looks at the clock.
type counting struct {
	recorder
	values atomic.Int64
	mu     sync.Mutex
	hops   []time.Duration
	epoch  time.Time
	timed  bool
}

func (c *counting) Values(_ Peer, batch []Received) {
	c.values.Add(int64(len(batch)))
	if c.timed {
		now := time.Since(c.epoch)
		c.mu.Lock()
		for _, r := range batch {
			c.hops = append(c.hops, now-time.Duration(binary.BigEndian.Uint64(r.Value.Payload)))
		}
		c.mu.Unlock()
	}
}

func benchPair(b *testing.B, timed bool) (*replica, *counting) {
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		return l
	}
	c := &counting{epoch: time.Now(), timed: timed}
	lx, ly := listen(), listen()
	x := start(b, "x", lx, nil)
	y := start(b, "y", ly, func(o *Options) { c.recorder = o.Handler.(recorder); o.Handler = c })
	x.SetPeer(Peer{Replica: "y", Incarnation: 1, Address: ly.Addr().String()})
	y.SetPeer(Peer{Replica: "x", Incarnation: 1, Address: lx.Addr().String()})
	x.Begin(1)
	y.Begin(1)
	x.waitLinked(b, 1)
	b.Cleanup(func() { x.Close(); y.Close() })
	return x, c
}

// BenchmarkThroughput moves values of 256 bytes over one link, TLS on loopback, both ends in this process.
func BenchmarkThroughput(b *testing.B) {
	x, c := benchPair(b, false)
	const batch = 256
	payload := make([]byte, 256)
	out := make([]Outgoing, batch)
	peers := []string{"y"}
	for i := range out {
		out[i] = Outgoing{Value: &value.Value{Workspace: "acme", Name: "mHv1.0/acme/plant/line/7/temperature", Topic: "plant/line/7/temperature", Publisher: "press-0007",
			ClientID: "press-0007-a", QoS: 1, Timestamp: 1_790_000_000_123_456_789, Received: 1_790_000_000_123_456_789, Payload: payload, Body: payload}, Peers: peers}
	}
	slots := make(chan struct{}, 32)
	var open sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += batch {
		slots <- struct{}{}
		open.Add(1)
		x.SendValues(out, func() { <-slots; open.Done() })
	}
	open.Wait()
	b.ReportMetric(float64(c.values.Load())/b.Elapsed().Seconds(), "values/s")
}

// BenchmarkHop sends single values at 10,000 a second and measures from SendValues to the handler at the
// other end.
func BenchmarkHop(b *testing.B) {
	x, c := benchPair(b, true)
	peers := []string{"y"}
	var open sync.WaitGroup
	begin := time.Now()
	for n := range b.N {
		for wait := time.Duration(n)*100*time.Microsecond - time.Since(begin); wait > 0; wait = time.Duration(n)*100*time.Microsecond - time.Since(begin) {
			<-time.After(wait)
		}
		open.Add(1)
		p := binary.BigEndian.AppendUint64(make([]byte, 0, 8), uint64(time.Since(c.epoch)))
		x.SendValues([]Outgoing{{Value: &value.Value{Workspace: "acme", Name: "mHv1.0/acme/t", Topic: "t", QoS: 1, Payload: p, Body: p}, Peers: peers}}, open.Done)
	}
	open.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.Sort(c.hops)
	b.ReportMetric(float64(c.hops[len(c.hops)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(c.hops[len(c.hops)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(0, "ns/op")
}
