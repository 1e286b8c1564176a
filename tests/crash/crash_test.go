package crash_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"maestrohub.io/uns/tests/harness"
)

var (
	kills  = flag.Int("kills", 200, "how often the broker is killed")
	during = flag.Duration("for", 0, "kill for as long as this instead")
)

// model makes the topics of the test retain their last value.
const model = `
workspaces:
  - slug: acme
    bindings:
      - topic: crash/#
        retain: true
`

// TestNoAcknowledgedValueIsLost kills after a random number of acknowledgments;
// now and then during the start itself, before the broker serves.
func TestNoAcknowledgedValueIsLost(t *testing.T) {
	names := []string{"dev-1", "dev-2", "dev-3", "dev-4"}
	b := harness.Prepare(t, harness.Options{Clients: harness.Clients(names...), Model: model})
	var total atomic.Int64
	var devices []*device
	for i, name := range names {
		devices = append(devices, &device{
			name: name, topic: "crash/" + name, connect: b.ConnectAs(name, name), window: 50, total: &total,
			qos: byte(1 + i%2), // QoS 1 and QoS 2
		})
	}
	began := time.Now()
	goOn := func(killed int) bool {
		if *during > 0 {
			return time.Since(began) < *during
		}
		return killed < *kills
	}
	killed := 0
	for ; goOn(killed); killed++ {
		if killed%10 == 9 {
			killWhileStarting(t, b)
			continue
		}
		b.Restart(t)
		checkRetained(t, b, devices)
		live(t, b, devices, rand.Int64N(3000))
		if t.Failed() {
			t.Fatalf("after %d kills", killed)
		}
	}
	b.Restart(t)
	sent, acked, repeated := 0, 0, 0
	for _, d := range devices {
		sent, repeated = sent+d.next, repeated+d.repeated
		acked += checkHistory(t, b, d)
	}
	checkRetained(t, b, devices)
	t.Logf("%d kills in %.0f s: %d values sent, %d again, %d acknowledged, all in history once",
		killed, time.Since(began).Seconds(), sent, repeated, acked)
}

// live lets the devices publish until so many acknowledgments have come, and kills
// the broker under them.
func live(t *testing.T, b *harness.Broker, devices []*device, enough int64) {
	t.Helper()
	devices[0].total.Store(0)
	var lives sync.WaitGroup
	for _, d := range devices {
		lives.Go(func() {
			if err := d.live(b.TCP); err != nil {
				t.Error(err)
			}
		})
	}
	harness.Eventually(t, fmt.Sprintf("%d acknowledgments", enough), func() (bool, string) {
		n := devices[0].total.Load()
		return n >= enough || t.Failed(), fmt.Sprintf("%d came", n)
	})
	b.Kill()
	lives.Wait()
}

// killWhileStarting kills a broker that has begun to say something.
func killWhileStarting(t *testing.T, b *harness.Broker) {
	t.Helper()
	if err := b.Launch(); err != nil {
		t.Fatal(err)
	}
	if rand.IntN(2) == 0 {
		harness.WaitFor(t, b.Process(), `\n`)
	}
	b.Kill()
}

// checkHistory reads a device's topic back and compares it with what was sent and
// acknowledged. It returns how many values were acknowledged.
func checkHistory(t *testing.T, b *harness.Broker, d *device) (acked int) {
	t.Helper()
	stored := make([]int, d.next)
	for _, row := range b.History(t, d.name, d.topic) {
		var n int
		if err := json.Unmarshal(row.Value, &n); err != nil || n < 0 || n >= d.next {
			t.Errorf("%s: history has %s, which was never sent", d.name, row.Value)
			continue
		}
		if want := start.Add(time.Duration(n) * time.Millisecond); !row.Timestamp.Equal(want) {
			t.Errorf("%s: value %d is stored at %s, want %s", d.name, n, row.Timestamp, want)
		}
		stored[n]++
	}
	for n, times := range stored {
		if d.acked[n] {
			acked++
		}
		switch {
		case times == 0 && d.acked[n]:
			t.Errorf("%s: value %d was acknowledged and is not in history", d.name, n)
		case times > 1:
			t.Errorf("%s: value %d is in history %d times", d.name, n, times)
		}
	}
	return acked
}

// checkRetained compares what each device's topic retains with what was
// acknowledged last.
func checkRetained(t *testing.T, b *harness.Broker, devices []*device) {
	t.Helper()
	var page struct {
		Values []harness.Row `json:"values"`
	}
	d := devices[0]
	b.Fetch(t, d.name, "/api/v1/uns/"+harness.Workspace+"/retained?"+url.Values{"topic": {"crash/#"}}.Encode(), &page)
	retained := map[string]int{}
	for _, row := range page.Values {
		var n int
		if err := json.Unmarshal(row.Value, &n); err != nil {
			t.Errorf("%s retains %s, which was never sent", row.Topic, row.Value)
		}
		retained[row.Topic] = n
	}
	for _, d := range devices {
		last := d.lastAcked()
		if got, ok := retained[d.topic]; last >= 0 && (!ok || got < last) {
			t.Errorf("%s retains value %d (there: %t), and %d was acknowledged", d.topic, got, ok, last)
		}
	}
}
