package conformance

import (
	"fmt"
	"testing"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/mqtttest"
)

// A value that is published while a subscription is made reaches it: live, or as the
// topic's retained message. There is no moment between the two.
func TestASubscriptionMissesNoRetainedValuePublishedBesideIt(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.3.1-9", "3.1.1 MQTT-3.3.1-6")
	for name, o := range map[string]func(*mqtt.Connect){"clean": all(), "persistent": persistent} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pub := publisher(t)
			sub := broker.Connect(t, mqtt.V5, "dev-b", o)
			for i := range 100 {
				topic := retainedTopic()
				p := pub.PublishPacket(topic, 1, fmt.Sprint(i))
				s := &mqtt.Subscribe{PacketID: sub.NextID(), Filters: []mqtt.Subscription{{Filter: sub.Topic(topic), QoS: 1}}}
				if i%2 == 0 {
					pub.Send(p)
					sub.Send(s)
				} else {
					sub.Send(s)
					pub.Send(p)
				}
				pub.ExpectAck(mqtt.PUBACK, p.PacketID, mqtt.Success)
				for answered, came := false, false; !answered || !came; {
					switch got := sub.Next().Content.(type) {
					case *mqtt.Suback:
						answered = true
					case *mqtt.Publish:
						sub.Ack(got)
						came = true
						if string(got.Topic) != sub.Topic(topic) {
							came = false // twice, live and retained, is allowed: of the topic before
						}
					}
				}
			}
		})
	}
}

// The same at the moment a subscriber has just been sent the value.
func TestASubscriptionMadeWhenTheLiveCopyArrivesGetsTheValueRetained(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.3.1-9", "3.1.1 MQTT-3.3.1-6")
	for name, o := range map[string]func(*mqtt.Connect){"clean": all(), "persistent": persistent} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pub := publisher(t)
			pub.AutoAck = true
			base := retainedTopic()
			first := broker.Connect(t, mqtt.V5, "dev-b")
			first.Subscribe(base+"/+", 0)
			sub := broker.Connect(t, mqtt.V5, "dev-b", o)
			for i := range 100 {
				topic, payload := fmt.Sprintf("%s/%d", base, i), fmt.Sprint(i)
				p := pub.PublishPacket(topic, 1, payload)
				pub.Send(p)
				first.ExpectPublish(topic, payload)
				sub.Subscribe(topic, 1)
				// Live beside retained is allowed, so one of the topic before may come.
				for {
					got := mqtttest.Expect[mqtt.Publish](sub)
					sub.Ack(got)
					if string(got.Topic) == sub.Topic(topic) {
						break
					}
				}
				pub.ExpectAck(mqtt.PUBACK, p.PacketID, mqtt.Success)
				sub.Unsubscribe(topic)
			}
		})
	}
}

// Deleting is seen at once, too: nobody is given a message whose deletion others have
// been told of.
func TestASubscriptionMadeWhenADeletionArrivesGetsNothing(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.3.1-6", "3.1.1 MQTT-3.3.1-10")
	pub := publisher(t)
	for _, base := range []string{retainedTopic(), "raw/retained/" + broker.Name()} {
		first := broker.Connect(t, mqtt.V5, "dev-b")
		first.Subscribe(base+"/+", 0)
		for i := range 20 {
			topic := fmt.Sprintf("%s/%d", base, i)
			pub.Publish(topic, 1, "1")
			first.ExpectPublish(topic, "1")
			p := pub.PublishPacket(topic, 1, "")
			pub.Send(p)
			first.ExpectPublish(topic, "")
			late := broker.Connect(t, mqtt.V5, "dev-b")
			late.Subscribe(topic, 0)
			late.ExpectNothing()
			late.Drop()
			pub.ExpectAck(mqtt.PUBACK, p.PacketID, mqtt.Success)
		}
	}
}
