package cluster_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/device"
	"maestrohub.io/uns/tests/harness"
)

// W2: while NATS is too slow, devices are disconnected and refused. No will of theirs is
// sent meanwhile. One that comes back once NATS answers finds its session and everything
// it is owed; one that stays away has its will sent, once.
func TestRowDevicesRefusedWhileNATSIsSlow(t *testing.T) {
	c := start(t)
	w := c.newWills(t)
	connect := w.device("back")
	roam := func(d *device.Device, home int) {
		attempt := 0
		d.User, d.Secret, d.Version, d.Fresh, d.Roams = "device", harness.Secret("device"), mqtt.V5, true, true
		d.Random = rand.New(rand.NewPCG(uint64(w.n), uint64(home)))
		d.Address = func() string {
			attempt++
			return c.Replicas[(home+attempt)%len(c.Replicas)].TCP
		}
	}
	topic := fmt.Sprintf("owed/%d", w.n)
	back := &device.Subscriber{Device: device.Device{ID: connect.ClientID, Will: connect.Will}, Filter: harness.Data(topic), QoS: 1, Changed: make(chan struct{}, 1)}
	roam(&back.Device, 0)
	publisher := &device.Publisher{Device: device.Device{ID: fmt.Sprintf("owing-%d", w.n)}, Name: harness.Inbox("device", topic), QoS: 1, Window: 5, Every: 50 * time.Millisecond}
	roam(&publisher.Device, 1)
	calm := make(chan struct{})
	close(calm)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	sending, stopSending := context.WithCancel(ctx)
	ended := make(chan error, 2)
	go func() { ended <- back.Run(ctx, calm) }()
	go func() { ended <- publisher.Run(sending) }()
	received := func(since time.Time) bool {
		all := back.Arrivals(harness.Data(topic))
		return len(all) > 0 && all[len(all)-1].At.After(since)
	}
	until(t, time.Minute, "the device to receive", func() (bool, string) { return received(time.Time{}), "nothing" })
	w.connect(t, 0, "away")

	before := make([]int, len(c.Replicas))
	for i := range c.Replicas {
		before[i] = c.printed(i, fencedLine)
	}
	c.Slow(slowBy(10))
	slowed := time.Now()
	until(t, 4*fenceAfter+2*slowBy(10)+generous, "every replica to fence", func() (bool, string) {
		for i := range c.Replicas {
			if c.printed(i, fencedLine) == before[i] {
				return false, c.Replicas[i].ID + " serves"
			}
		}
		return true, ""
	})
	stay(max(grace+2*ttl, *long) - time.Since(slowed))
	refused := 0
	for _, e := range back.Events() {
		if e.What == "refused" && e.At.After(slowed) {
			refused++
		}
	}
	if refused == 0 {
		t.Error("the device was never refused")
	}
	c.Slow(0)
	healed := time.Now()
	c.awaitReady(t)
	until(t, time.Minute, "the device to receive again", func() (bool, string) { return received(healed), "nothing" })
	w.watch(t, 1)
	stopSending()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	until(t, time.Minute, "the device to have everything it is owed", func() (bool, string) {
		problems, _, _ := device.Check(back, harness.Data(topic), publisher)
		return len(problems) == 0, fmt.Sprint(problems)
	})
	refusedAway.took(t, w.expect(t, "away", *connectBudget+grace+generous).Sub(healed))
	w.ExpectNothing()
	sent := c.brokers[0].History(t, "device", w.topic("back"))
	refusedBack.was(t, len(sent))
	if len(sent) > 0 {
		t.Errorf("the will of the device that is back was sent %d times", len(sent))
	}
	early := 0
	gone := c.brokers[0].History(t, "device", w.topic("away"))
	for _, r := range gone {
		if r.Received.Before(healed) {
			early++
		}
	}
	refusedWill.was(t, early)
	if early > 0 || len(gone) != 1 {
		t.Errorf("the will of the device that stays away was sent %d times, %d of them while it was refused", len(gone), early)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	t.Logf("refused %d times; %d values acknowledged, all received", refused, len(publisher.Acked()))
}
