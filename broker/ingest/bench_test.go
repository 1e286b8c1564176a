package ingest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/historian/pebble"
	"maestrohub.io/uns/broker/model"
	"maestrohub.io/uns/broker/retained"
	"maestrohub.io/uns/broker/state/memory"
	"maestrohub.io/uns/broker/value"
)

// instant is a historian that costs nothing.
type instant struct {
	historian.Historian
	position uint64
}

func (h *instant) Append(_ context.Context, values []*value.Value) error {
	for _, v := range values {
		h.position++
		v.Position = h.position
	}
	return nil
}

// deaf is a Live and Wanted that costs nothing.
type deaf struct{ wants bool }

func (deaf) Deliver([]*value.Value)       {}
func (deaf) Flush()                       {}
func (d deaf) Wanted(v *value.Value) bool { return d.wants }
func (deaf) Generation() uint64           { return 1 }

// remote is a deaf that other replicas have a part in, which have each batch at once
// (or, late, a moment later), under a lease as cheap to read as the cluster's.
type remote struct {
	deaf
	late bool
}

func (r remote) DeliverLinked(_ []*value.Value, arrived func()) bool {
	if r.late {
		go arrived()
	} else {
		arrived()
	}
	return true
}

func (remote) Fresh() bool { return !time.Now().IsZero() }

// window lets a number of publishes be on their way, as a connection does.
type window struct {
	free chan struct{}
	done atomic.Int64
	fail atomic.Int64
}

func (w *window) Complete(_ uint64, o Outcome) {
	if o.Refusal != 0 {
		w.fail.Add(1)
	}
	w.done.Add(1)
	w.free <- struct{}{}
}

func (w *window) Flush() {}

// benchmark publishes b.N values of 256 B from connections of one workspace, each
// with a window of 100 (10,000 for the overhead alone).
func benchmark(b *testing.B, h historian.Historian, wants bool, connections, inFlight, batch int, change ...func(*Options)) {
	m, err := model.Parse([]byte(testModel))
	if err != nil {
		b.Fatal(err)
	}
	store, err := memory.Open(memory.Options{LogMaxBytes: 64 << 20})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	kept, err := retained.Open(b.Context(), store)
	if err != nil {
		b.Fatal(err)
	}
	defer kept.Close()
	o := Options{Model: func() *model.Model { return m }, Historian: h, Logs: store, Retained: kept, Live: deaf{wants}, Wanted: deaf{wants}, LiveQoS: 1}
	for _, c := range change {
		c(&o)
	}
	i := New(o)
	payload := fmt.Appendf(nil, `{"value":21.5,"timestamp":1790000000123,"quality":"good"%200s}`, "")
	b.ReportAllocs()
	began := processorTime(b)
	b.ResetTimer()
	windows := make([]*window, connections)
	finished := make(chan struct{})
	for c := range windows {
		w := &window{free: make(chan struct{}, inFlight)}
		for range inFlight {
			w.free <- struct{}{}
		}
		windows[c] = w
		go func() {
			defer func() { finished <- struct{}{} }()
			client := fmt.Sprint("device-", c)
			g := access.GrantsFor(client, "acme")
			name := "mHv1.0/acme/_ingress/" + client + "/line/1/station/7/temp"
			run := make([]Publish, 0, batch)
			for n := c; n < b.N; n += connections {
				<-w.free
				run = append(run, Publish{Name: name, QoS: 1, Payload: payload, ClientID: client, Grants: g, Done: w, Slot: uint64(n)})
				if len(run) == batch || n+connections >= b.N || len(w.free) == 0 {
					if len(run) == 1 {
						i.Publish(run[0])
					} else {
						i.PublishBatch(run)
					}
					run = run[:0]
				}
			}
			for range inFlight {
				<-w.free
			}
		}()
	}
	for range windows {
		<-finished
	}
	b.StopTimer()
	for _, w := range windows {
		if w.fail.Load() > 0 {
			b.Fatalf("%d refused", w.fail.Load())
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "values/s")
	b.ReportMetric(float64(processorTime(b)-began)/float64(b.N), "cpu-ns/op")
	if err := i.Stop(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// processorTime is what this process has used: on a machine shared with others it
// says more than the time that passed.
func processorTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkOverhead(b *testing.B)         { benchmark(b, &instant{}, false, 1, 10_000, 1) }
func BenchmarkOverheadBatch(b *testing.B)    { benchmark(b, &instant{}, false, 1, 10_000, 64) }
func BenchmarkOverheadLogged(b *testing.B)   { benchmark(b, &instant{}, true, 1, 10_000, 1) }
func BenchmarkOverheadOneByOne(b *testing.B) { benchmark(b, &instant{}, false, 1, 1, 1) }

func BenchmarkOverheadLinked(b *testing.B) {
	for _, late := range []bool{false, true} {
		b.Run(fmt.Sprint("late=", late), func(b *testing.B) {
			benchmark(b, &instant{}, false, 1, 10_000, 1, func(o *Options) {
				r := remote{late: late}
				o.Live, o.Wanted, o.MayAct = r, r, r.Fresh
			})
		})
	}
}

func BenchmarkPebble(b *testing.B) {
	for _, wants := range []bool{false, true} {
		b.Run(fmt.Sprint("wanted=", wants), func(b *testing.B) {
			h, err := pebble.Open(b.TempDir(), pebble.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer h.Close()
			benchmark(b, h, wants, 10, 100, 1)
		})
	}
}
