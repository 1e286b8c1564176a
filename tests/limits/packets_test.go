package limits

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tests/mqtttest"
)

// metric reads one counter or gauge without labels.
func metric(t *testing.T, b *mqtttest.Broker, name string) float64 {
	t.Helper()
	r, err := http.Get("http://" + b.Address("http") + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("no metric %s", name)
	}
	x, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestMaxSubscriptionsPerClient(t *testing.T) {
	b := start(t, func(l *config.Limits) { l.MaxSubscriptionsPerClient = 2 })
	for _, v := range []mqtt.Version{mqtt.V5, mqtt.V311} {
		c := b.Connect(t, v, "dev-a")
		c.Subscribe("a", 1)
		c.Subscribe("b", 1)
		want := mqtt.QuotaExceeded
		if v < mqtt.V5 {
			want = mqtt.UnspecifiedError
		}
		if got := c.TrySubscribe("c", 1); got != want {
			t.Errorf("MQTT %v: a third subscription: %v, want %v", v, got, want)
		}
		c.Subscribe("b", 2) // a replacement is none more
		c.Unsubscribe(mqtttest.Data("plant", "a"))
		c.Subscribe("c", 1)
	}
	if got := metric(t, b, `maestrohub_uns_broker_subscriptions_refused_total{reason="quota"}`); got != 2 {
		t.Errorf("%v filters counted as refused for the quota, want 2", got)
	}
}

func TestMaxTopicLevels(t *testing.T) {
	b := start(t, func(l *config.Limits) { l.MaxTopicLevels = 8 })
	c := b.Connect(t, mqtt.V5, "dev-a")
	c.Publish("a/b/c/d", 1, "1")
	if got := c.TryPublish("a/b/c/d/e", 1, "1"); got != mqtt.TopicNameInvalid {
		t.Errorf("PUBLISH of nine levels: %v, want %v", got, mqtt.TopicNameInvalid)
	}
	c.Subscribe("a/b/c/d/e/f", 1)
	if got := c.TrySubscribe("a/b/c/d/e/f/g", 1); got != mqtt.TopicFilterInvalid {
		t.Errorf("SUBSCRIBE of nine levels: %v, want %v", got, mqtt.TopicFilterInvalid)
	}
}

func TestMaxTopicBytes(t *testing.T) {
	b := start(t, func(l *config.Limits) { l.MaxTopicBytes = 100 })
	c := b.Connect(t, mqtt.V5, "dev-a")
	fits := strings.Repeat("x", 100-len(mqtttest.Inbox("dev-a", "")))
	c.Publish(fits, 1, "1")
	if got := c.TryPublish(fits+"x", 1, "1"); got != mqtt.TopicNameInvalid {
		t.Errorf("PUBLISH of 101 bytes: %v, want %v", got, mqtt.TopicNameInvalid)
	}
	fits = strings.Repeat("x", 100-len(mqtttest.Data("plant", "")))
	c.Subscribe(fits, 1)
	if got := c.TrySubscribe(fits+"x", 1); got != mqtt.TopicFilterInvalid {
		t.Errorf("SUBSCRIBE of 101 bytes: %v, want %v", got, mqtt.TopicFilterInvalid)
	}
	if got := metric(t, b, `maestrohub_uns_broker_subscriptions_refused_total{reason="filter_invalid"}`); got != 1 {
		t.Errorf("%v filters counted as refused for their shape, want 1", got)
	}
}

func TestReceiveMaximum(t *testing.T) {
	b := start(t, func(l *config.Limits) { l.ReceiveMaximum = 3 })
	c := b.Connect(t, mqtt.V5, "dev-a")
	if got := c.Connack.ReceiveMaximum; got != 3 {
		t.Errorf("CONNACK announces Receive Maximum %d, want 3", got)
	}
	// QoS 2 messages count until they are released: three are open, the fourth is
	// one too many.
	for id := uint16(1); id <= 3; id++ {
		p := c.PublishPacket("a", 2, "1")
		p.PacketID = id
		c.Send(p)
		c.ExpectAck(mqtt.PUBREC, id, mqtt.Success)
	}
	p := c.PublishPacket("a", 2, "1")
	p.PacketID = 4
	c.Send(p)
	c.ExpectDisconnect(mqtt.ReceiveMaximumExceeded)

	// The other way: the broker has no more than three open at a time, whatever the
	// client allows.
	s := b.Connect(t, mqtt.V5, "dev-b")
	s.Subscribe("b", 1)
	from := b.Connect(t, mqtt.V5, "dev-a")
	for n := range 5 {
		from.Publish("b", 1, fmt.Sprint(n))
	}
	var open []*mqtt.Publish
	for n := range 3 {
		open = append(open, s.ExpectPublish("b", fmt.Sprint(n)))
	}
	s.ExpectNothing()
	s.Ack(open[0])
	s.ExpectPublish("b", "3")
	s.ExpectNothing()
}

func TestMaxClientWritesPending(t *testing.T) {
	// A client that sends without reading the answers is not read any more, so it
	// cannot fill the broker's memory: in the end its own writes stand still.
	b := start(t, func(l *config.Limits) { l.MaxClientWritesPending = 10 })
	c := b.Connect(t, mqtt.V311, "dev-a")
	other := b.Connect(t, mqtt.V5, "dev-b")
	burst := make([]byte, 0, 64<<10)
	for len(burst) < cap(burst)-2 {
		burst = mqtt.AppendPingreq(burst)
	}
	stuck := false
	for range 4096 { // 256 MiB, far beyond what sockets buffer
		_ = c.Conn().SetWriteDeadline(time.Now().Add(3 * time.Second))
		if _, err := c.Conn().Write(burst); err != nil {
			stuck = true
			break
		}
	}
	if !stuck {
		t.Fatal("256 MiB of packets were taken from a client that reads no answer")
	}
	other.ExpectNothing() // nobody else is concerned
}

func TestMaxSubscriberQueue(t *testing.T) {
	b := start(t, func(l *config.Limits) { l.MaxSubscriberQueue = 5 })
	s := b.Connect(t, mqtt.V5, "dev-b", func(p *mqtt.Connect) { p.ReceiveMaximum = 1 })
	s.Subscribe("q", 1)
	from := b.Connect(t, mqtt.V5, "dev-a")
	for n := range 10 {
		from.Publish("q", 1, fmt.Sprint(n))
	}
	// One is with the client, five wait, and the four oldest of the waiting are gone.
	for _, want := range []string{"0", "5", "6", "7", "8", "9"} {
		s.Ack(s.ExpectPublish("q", want))
	}
	s.ExpectNothing()
	if got := metric(t, b, "maestrohub_uns_broker_messages_dropped_total"); got != 4 {
		t.Errorf("messages_dropped_total is %v, want 4", got)
	}
}

func TestMaxSessionExpiry(t *testing.T) {
	b := start(t, func(l *config.Limits) { l.MaxSessionExpiry = 2 * time.Second })
	persistent := func(p *mqtt.Connect) { p.CleanStart, p.SessionExpiry = false, 0xFFFFFFFF }
	c := b.Connect(t, mqtt.V5, "dev-a", persistent)
	if got := c.Connack.SessionExpiry; got == nil || *got != 2 {
		t.Errorf("CONNACK says Session Expiry %v, want 2", got)
	}
	old := b.Connect(t, mqtt.V311, "dev-a", func(p *mqtt.Connect) { p.CleanStart = false })
	c.Disconnect()
	old.Disconnect()
	awaitSessions(t, b, 0)
	for _, again := range []*mqtttest.Client{c.Again(persistent), old.Again()} {
		if again.Connack.SessionPresent {
			t.Errorf("MQTT %v: the session is there after its expiry", again.Version)
		}
	}
}

func TestMaxOfflineSessions(t *testing.T) {
	b := mqtttest.Start(t, func(c *config.Config) {
		c.Limits.MaxOfflineSessions = 2
		c.WillStopGrace = 0
	})
	var away []*mqtttest.Client
	persistent := func(p *mqtt.Connect) { p.CleanStart, p.SessionExpiry = false, 600 }
	for range 3 {
		c := b.Connect(t, mqtt.V5, "dev-a", persistent)
		c.Disconnect()
		away = append(away, c)
	}
	awaitSessions(t, b, 2)
	for i, c := range away {
		if present := c.Again(persistent).Connack.SessionPresent; present != (i > 0) {
			t.Errorf("session %d of 3 by the time it went: present %v; the one longest away is to be ended", i+1, present)
		}
	}
}

// awaitSessions waits until the broker holds n sessions that are offline.
func awaitSessions(t *testing.T, b *mqtttest.Broker, n float64) {
	t.Helper()
	harness.Eventually(t, fmt.Sprintf("%v offline sessions", n), func() (bool, string) {
		offline := metric(t, b, `maestrohub_uns_broker_sessions\{state="offline"\}`)
		return offline == n, fmt.Sprint(offline)
	})
}
