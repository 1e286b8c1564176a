package sessions

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tests/mqtttest"
	"maestrohub.io/uns/tests/site"
)

const largest = 6 << 20

func TestReplicasRace(t *testing.T) {
	s := site.Start(t)
	large := func(c *config.Config) { c.Broker.MaxPacketBytes = largest }
	p := &pair{s.Replica(t, "a", large), s.Replica(t, "b", large)}
	retained := s.Bucket(t, state.Retained)
	t.Run("topics set and cleared at both at once are the same at both", func(t *testing.T) { setAndCleared(t, p, retained) })
	t.Run("of many connections under one client identifier one stays", func(t *testing.T) { manyUnderOne(t, p) })
	t.Run("the largest packet crosses, live and kept", func(t *testing.T) { largestCrosses(t, p) })
}

// setAndCleared: whichever of the writes of a topic is the last, both replicas and the
// store have it.
func setAndCleared(t *testing.T, p *pair, bucket state.Bucket) {
	const topics, rounds = 100, 4
	var all sync.WaitGroup
	for n, b := range []*mqtttest.Broker{p.a, p.a, p.b, p.b} {
		c := connect(t, b, "dev-a")
		r := rand.New(rand.NewPCG(1, uint64(n)))
		all.Go(func() {
			for round := range rounds {
				for _, i := range r.Perm(topics) {
					payload := fmt.Sprintf("%d%d", n+1, round)
					if r.IntN(2) == 0 {
						payload = ""
					}
					if code := c.TryPublish(fmt.Sprintf("raw/retained/race/%d", i), 1, payload); code >= mqtt.UnspecifiedError {
						t.Errorf("%q on %d: %v", payload, i, code)
						return
					}
				}
			}
		})
	}
	all.Wait()
	seen := func(b *mqtttest.Broker) map[string]string {
		c := connect(t, b, "dev-b")
		c.Subscribe("raw/retained/race/+", 0)
		got := map[string]string{}
		c.SendRaw([]byte{0xC0, 0})
		for {
			next := c.Next()
			if next.Header.Type == mqtt.PINGRESP {
				c.Disconnect()
				return got
			}
			m := next.Content.(*mqtt.Publish)
			if _, twice := got[string(m.Topic)]; twice {
				t.Errorf("%s comes twice", m.Topic)
			}
			got[string(m.Topic)] = string(m.Payload)
		}
	}
	harness.Eventually(t, "both replicas to have the same retained messages", func() (bool, string) {
		a, b := seen(p.a), seen(p.b)
		var differ []string
		for topic, payload := range a {
			if b[topic] != payload {
				differ = append(differ, fmt.Sprintf("%s: %q at a, %q at b", topic, payload, b[topic]))
			}
		}
		return maps.Equal(a, b) && len(a) > 0 && len(a) < topics, fmt.Sprintf("%d at a, %d at b: %v", len(a), len(b), differ)
	})
	stored, err := bucket.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]int{}
	for _, r := range stored {
		have[r.Key]++
	}
	for topic := range seen(p.a) {
		if have[topic] != 1 {
			t.Errorf("%s is not in the store", topic)
		}
	}
}

// manyUnderOne: a session that fifty connections want at once is one's in the end, with
// everything published meanwhile, once at QoS 2, and the others are told.
func manyUnderOne(t *testing.T, p *pair) {
	const connections, values = 50, 60
	first := connect(t, p.a, "dev-a", lasting)
	first.Subscribe("line/many", 2)
	first.Drop()
	got := map[string]int{}
	var all, publishing sync.WaitGroup
	pub := connect(t, p.b, "dev-b")
	publishing.Go(func() {
		for i := range values {
			pub.Publish("line/many", 2, fmt.Sprint(i))
		}
	})
	for i := range connections {
		b := p.a
		if i%2 == 1 {
			b = p.b
		}
		all.Go(func() {
			c := b.Dial(t, mqtt.V5, "tcp")
			c.Send(b.Credentials("dev-a", func(c *mqtt.Connect) { c.ClientID = first.ID; lasting(c) }))
			next, err := c.TryNext()
			if err != nil {
				return // closed by another before it was answered
			}
			ack := next.Content.(*mqtt.Connack)
			if ack.Code != mqtt.Success {
				if ack.Code != mqtt.ServerUnavailable {
					t.Errorf("refused with %v", ack.Code)
				}
				return
			}
			if !ack.SessionPresent {
				t.Error("a session is not present")
			}
		})
	}
	all.Wait()
	publishing.Wait()
	last := move(t, first, p.b)
	for len(got) < values {
		m := mqtttest.Expect[mqtt.Publish](last)
		last.Ack(m)
		got[string(m.Payload)]++
	}
	last.ExpectNothing()
	for payload, n := range got {
		if n != 1 {
			t.Errorf("%s came %d times", payload, n)
		}
	}
	last.Disconnect()
}

// largestCrosses: a value of almost Maximum Packet Size published at one replica comes to a
// clean and a persistent session of the other, and to that once it has moved.
func largestCrosses(t *testing.T, p *pair) {
	clean, kept := connect(t, p.b, "dev-b"), connect(t, p.b, "dev-b", lasting)
	clean.Subscribe("raw/large", 1)
	kept.Subscribe("raw/large", 2)
	pub := connect(t, p.a, "dev-a")
	if pub.Connack.MaximumPacketSize != largest {
		t.Fatalf("Maximum Packet Size %d, want %d", pub.Connack.MaximumPacketSize, largest)
	}
	// The live copy has properties and a longer name than the PUBLISH it is of.
	payload := strings.Repeat("x", largest-512)
	pub.Publish("raw/large", 2, payload)
	for _, c := range []*mqtttest.Client{clean, kept} {
		m := mqtttest.Expect[mqtt.Publish](c)
		if string(m.Payload) != payload {
			t.Errorf("%d bytes, want %d", len(m.Payload), len(payload))
		}
		c.Ack(m)
	}
	kept.Drop()
	pub.Publish("raw/large", 1, payload)
	clean.Ack(mqtttest.Expect[mqtt.Publish](clean))
	kept = move(t, kept, p.a)
	m := mqtttest.Expect[mqtt.Publish](kept)
	if string(m.Payload) != payload {
		t.Errorf("after the move %d bytes, want %d", len(m.Payload), len(payload))
	}
	kept.Ack(m)
	kept.ExpectNothing()
}
