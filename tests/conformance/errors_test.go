package conformance

import (
	"strings"
	"testing"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/mqtttest"
)

// broken is a packet no client may send.
type broken struct {
	name, wire string
	code       mqtt.ReasonCode // of the DISCONNECT in MQTT 5
}

// closes shows of each packet that it ends its connection and no other.
func closes(t *testing.T, versions []mqtt.Version, list []broken) {
	t.Helper()
	for _, x := range list {
		t.Run(x.name, func(t *testing.T) {
			each(t, versions, func(t *testing.T, v mqtt.Version) {
				bystander := broker.Connect(t, v, "dev-b")
				c := broker.Connect(t, v, "dev-a")
				c.SendWire(x.wire)
				c.ExpectRefusal(x.code)
				bystander.ExpectNothing()
			})
		})
	}
}

func TestBrokenPacketsOfMQTT5(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-1.5.4-1", "5 MQTT-1.5.4-2", "5 MQTT-1.5.5-1", "5 MQTT-1.5.7-1", "5 MQTT-2.1.3-1", "5 MQTT-2.2.2-1", "5 MQTT-3.3.1-2", "5 MQTT-3.3.1-4",
		"5 MQTT-3.3.2-1", "5 MQTT-3.3.2-2", "5 MQTT-3.3.2-13", "5 MQTT-3.3.2-14", "5 MQTT-3.3.2-19", "5 MQTT-3.3.4-6", "5 MQTT-3.4.2-1", "5 MQTT-3.5.2-1",
		"5 MQTT-3.6.1-1", "5 MQTT-3.6.2-1", "5 MQTT-3.7.2-1", "5 MQTT-3.8.1-1", "5 MQTT-3.8.3-1", "5 MQTT-3.8.3-2", "5 MQTT-3.8.3-4", "5 MQTT-3.8.3-5",
		"5 MQTT-3.10.1-1", "5 MQTT-3.10.3-1", "5 MQTT-3.10.3-2", "5 MQTT-3.14.1-1", "5 MQTT-3.14.2-1", "5 MQTT-3.14.4-2", "5 MQTT-3.15.1-1", "5 MQTT-3.15.2-1", "5 MQTT-4.7.0-1",
		"5 MQTT-4.7.1-1", "5 MQTT-4.7.1-2", "5 MQTT-4.7.3-1", "5 MQTT-4.7.3-2", "5 MQTT-4.13.1-1", "5 MQTT-4.13.2-1", "5 D5-04", "5 D5-14")
	closes(t, []mqtt.Version{mqtt.V5}, []broken{
		{"PUBLISH at QoS 3", `36 ("a" 0001 () 'x')`, mqtt.MalformedPacket},
		{"PUBLISH at QoS 0 with DUP", `38 ("a" () 'x')`, mqtt.MalformedPacket},
		{"PUBLISH to a wildcard", `30 ("a/#" () 'x')`, mqtt.MalformedPacket},
		{"PUBLISH to another wildcard", `32 ("+/a" 0001 () 'x')`, mqtt.MalformedPacket},
		{"PUBLISH to no topic", `30 ("" () 'x')`, mqtt.ProtocolError},
		{"PUBLISH to a topic with U+0000", `30 (0003 610062 () 'x')`, mqtt.MalformedPacket},
		{"PUBLISH to a topic with a surrogate", `30 (0003 EDA080 () 'x')`, mqtt.MalformedPacket},
		{"PUBLISH to a topic cut within a character", `30 (0001 C3 () 'x')`, mqtt.MalformedPacket},
		{"PUBLISH to an overlong encoding", `30 (0002 C0AF () 'x')`, mqtt.MalformedPacket},
		{"PUBLISH with identifier 0", `32 ("a" 0000 () 'x')`, mqtt.ProtocolError},
		{"PUBLISH without properties", `32 ("a" 0001)`, mqtt.MalformedPacket},
		{"PUBLISH with a property length beyond its end", `30 ("a" 7F 01)`, mqtt.MalformedPacket},
		{"PUBLISH with a padded property length", `30 ("a" 8000 'x')`, mqtt.MalformedPacket},
		{"PUBLISH with a padded remaining length", `30 8600 "a" 00 'xy'`, mqtt.MalformedPacket},
		{"PUBLISH with a subscription identifier", `30 ("a" (0B 01) 'x')`, mqtt.ProtocolError},
		{"PUBLISH with a response topic that is not UTF-8", `30 ("a" (08 0001 FF) 'x')`, mqtt.MalformedPacket},
		{"PUBLISH with a wildcard response topic", `30 ("a" (08 "r/+") 'x')`, mqtt.ProtocolError},
		{"PUBLISH with a content type that is not UTF-8", `30 ("a" (03 0002 C328) 'x')`, mqtt.MalformedPacket},
		{"PUBLISH with a user property that is not UTF-8", `30 ("a" (26 "k" 0001 FF) 'x')`, mqtt.MalformedPacket},
		{"PUBLISH with a user property named with U+0000", `30 ("a" (26 0001 00 "v") 'x')`, mqtt.MalformedPacket},
		{"PUBLISH with half a user property", `30 ("a" (26 "k") 'x')`, mqtt.MalformedPacket},
		{"PUBLISH with two message expiries", `30 ("a" (02 00000001 02 00000001) 'x')`, mqtt.ProtocolError},
		{"PUBLISH with two content types", `30 ("a" (03 "x" 03 "x") 'x')`, mqtt.ProtocolError},
		{"PUBLISH with two aliases", `30 ("a" (23 0001 23 0001) 'x')`, mqtt.ProtocolError},
		{"PUBLISH with payload format 2", `30 ("a" (01 02) 'x')`, mqtt.ProtocolError},
		{"PUBLISH with a property of CONNECT", `30 ("a" (11 00000001) 'x')`, mqtt.MalformedPacket},
		{"PUBACK with flags", `42 (0001)`, mqtt.MalformedPacket},
		{"PUBACK with identifier 0", `40 (0000)`, mqtt.ProtocolError},
		{"PUBACK without identifier", `40 00`, mqtt.MalformedPacket},
		{"PUBACK with a code not its own", `40 (0001 92)`, mqtt.ProtocolError},
		{"PUBREC with a code not its own", `50 (0001 01)`, mqtt.ProtocolError},
		{"PUBREL with flags 0", `60 (0001)`, mqtt.MalformedPacket},
		{"PUBREL with a code not its own", `62 (0001 80)`, mqtt.ProtocolError},
		{"PUBCOMP with flags", `72 (0001)`, mqtt.MalformedPacket},
		{"PUBCOMP with a code not its own", `70 (0001 10)`, mqtt.ProtocolError},
		{"PUBACK with two reason strings", `40 (0001 00 (1F "a" 1F "b"))`, mqtt.ProtocolError},
		{"SUBSCRIBE with flags 0", `80 (0001 () "a" 00)`, mqtt.MalformedPacket},
		{"SUBSCRIBE with identifier 0", `82 (0000 () "a" 00)`, mqtt.ProtocolError},
		{"SUBSCRIBE without a filter", `82 (0001 ())`, mqtt.ProtocolError},
		{"SUBSCRIBE to the empty filter", `82 (0001 () "" 00)`, mqtt.MalformedPacket},
		{"SUBSCRIBE without options", `82 (0001 () "a")`, mqtt.MalformedPacket},
		{"SUBSCRIBE with a reserved bit", `82 (0001 () "a" 40)`, mqtt.MalformedPacket},
		{"SUBSCRIBE with the other reserved bit", `82 (0001 () "a" 80)`, mqtt.MalformedPacket},
		{"SUBSCRIBE at QoS 3", `82 (0001 () "a" 03)`, mqtt.ProtocolError},
		{"SUBSCRIBE with retain handling 3", `82 (0001 () "a" 30)`, mqtt.ProtocolError},
		{"SUBSCRIBE with no local on a share", `82 (0001 () "$share/g/a" 04)`, mqtt.ProtocolError},
		{"SUBSCRIBE with subscription identifier 0", `82 (0001 (0B 00) "a" 00)`, mqtt.ProtocolError},
		{"SUBSCRIBE with two subscription identifiers", `82 (0001 (0B 01 0B 02) "a" 00)`, mqtt.ProtocolError},
		{"SUBSCRIBE to a filter not UTF-8", `82 (0001 () 0001 FF 00)`, mqtt.MalformedPacket},
		{"SUBSCRIBE to a filter with U+0000", `82 (0001 () 0001 00 00)`, mqtt.MalformedPacket},
		{"SUBSCRIBE with # before the end", `82 (0001 () "a/#/b" 00)`, mqtt.MalformedPacket},
		{"SUBSCRIBE with # in a level", `82 (0001 () "a#" 00)`, mqtt.MalformedPacket},
		{"SUBSCRIBE with + in a level", `82 (0001 () "a/b+/c" 00)`, mqtt.MalformedPacket},
		{"UNSUBSCRIBE with flags 0", `A0 (0001 () "a")`, mqtt.MalformedPacket},
		{"UNSUBSCRIBE with identifier 0", `A2 (0000 () "a")`, mqtt.ProtocolError},
		{"UNSUBSCRIBE without a filter", `A2 (0001 ())`, mqtt.ProtocolError},
		{"UNSUBSCRIBE from a filter not UTF-8", `A2 (0001 () 0001 FF)`, mqtt.MalformedPacket},
		{"UNSUBSCRIBE from the empty filter", `A2 (0001 () "")`, mqtt.MalformedPacket},
		{"PINGREQ with flags", `C1 00`, mqtt.MalformedPacket},
		{"PINGREQ with a body", `C0 (00)`, mqtt.MalformedPacket},
		{"DISCONNECT with flags", `E1 00`, mqtt.MalformedPacket},
		{"DISCONNECT with a code not its own", `E0 (01)`, mqtt.ProtocolError},
		{"DISCONNECT with a server's property", `E0 (00 (1C "elsewhere") 00)`, mqtt.MalformedPacket},
		{"AUTH with flags", `F1 (18 (15 "M"))`, mqtt.MalformedPacket},
		{"AUTH with a code not its own", `F0 (01 (15 "M"))`, mqtt.ProtocolError},
		{"AUTH without a method in CONNECT", `F0 (19 (15 "M"))`, mqtt.ProtocolError},
		{"a second CONNECT", `10 ("MQTT" 05 02 0000 () "c")`, mqtt.ProtocolError},
		{"CONNACK", `20 (00 00 ())`, mqtt.ProtocolError},
		{"SUBACK", `90 (0001 () 00)`, mqtt.ProtocolError},
		{"UNSUBACK", `B0 (0001 () 00)`, mqtt.ProtocolError},
		{"PINGRESP", `D0 00`, mqtt.ProtocolError},
		{"packet type 0", `00 00`, mqtt.MalformedPacket},
		{"a remaining length of five bytes", `30 FFFFFFFF01`, mqtt.MalformedPacket},
		{"a packet larger than announced", `30 FFFFFF7F`, mqtt.PacketTooLarge},
	})
}

func TestBrokenPacketsBeforeMQTT5(t *testing.T) {
	t.Parallel()
	shows(t, "3.1.1 MQTT-1.5.3-1", "3.1.1 MQTT-1.5.3-2", "3.1.1 MQTT-2.2.2-1", "3.1.1 MQTT-2.2.2-2", "3.1.1 MQTT-2.3.1-1", "3.1.1 MQTT-3.3.1-4", "3.1.1 MQTT-3.3.2-1",
		"3.1.1 MQTT-3.3.2-2", "3.1.1 MQTT-3.6.1-1", "3.1.1 MQTT-3.8.1-1", "3.1.1 MQTT-3.8.3-1", "3.1.1 MQTT-3.8.3-3", "3.1.1 MQTT-3-8.3-4", "3.1.1 MQTT-3.10.1-1",
		"3.1.1 MQTT-3.10.3-1", "3.1.1 MQTT-3.10.3-2", "3.1.1 MQTT-4.7.1-1", "3.1.1 MQTT-4.7.1-2", "3.1.1 MQTT-4.7.1-3", "3.1.1 MQTT-4.7.3-1", "3.1.1 MQTT-4.7.3-2", "3.1.1 MQTT-4.8.0-1")
	closes(t, oldVersions, []broken{
		{"PUBLISH at QoS 3", `36 ("a" 0001 'x')`, 0},
		{"PUBLISH to a wildcard", `30 ("a/#" 'x')`, 0},
		{"PUBLISH to another wildcard", `32 ("+/a" 0001 'x')`, 0},
		{"PUBLISH to no topic", `30 ("" 'x')`, 0},
		{"PUBLISH to a topic with U+0000", `30 (0003 610062 'x')`, 0},
		{"PUBLISH to a topic with a surrogate", `30 (0003 EDA080 'x')`, 0},
		{"PUBLISH to a topic cut within a character", `30 (0001 C3 'x')`, 0},
		{"PUBLISH at QoS 1 with identifier 0", `32 ("a" 0000 'x')`, 0},
		{"PUBLISH at QoS 2 with identifier 0", `34 ("a" 0000 'x')`, 0},
		{"PUBLISH at QoS 1 without identifier", `32 ("a")`, 0},
		{"PUBLISH with a topic beyond its end", `30 (00FF 'a')`, 0},
		{"PUBACK with flags", `42 (0001)`, 0},
		{"PUBACK with identifier 0", `40 (0000)`, 0},
		{"PUBACK with a code", `40 (0001 00)`, 0},
		{"PUBREL with flags 0", `60 (0001)`, 0},
		{"PUBREL with other flags", `66 (0001)`, 0},
		{"PUBREC with flags", `51 (0001)`, 0},
		{"PUBCOMP with flags", `74 (0001)`, 0},
		{"SUBSCRIBE with flags 0", `80 (0001 "a" 00)`, 0},
		{"SUBSCRIBE with identifier 0", `82 (0000 "a" 00)`, 0},
		{"SUBSCRIBE without a filter", `82 (0001)`, 0},
		{"SUBSCRIBE to the empty filter", `82 (0001 "" 00)`, 0},
		{"SUBSCRIBE without QoS", `82 (0001 "a")`, 0},
		{"SUBSCRIBE at QoS 3", `82 (0001 "a" 03)`, 0},
		{"SUBSCRIBE with a reserved bit", `82 (0001 "a" 04)`, 0},
		{"SUBSCRIBE to a filter not UTF-8", `82 (0001 0001 FF 00)`, 0},
		{"SUBSCRIBE with # before the end", `82 (0001 "a/#/b" 00)`, 0},
		{"SUBSCRIBE with # in a level", `82 (0001 "a#" 00)`, 0},
		{"SUBSCRIBE with + in a level", `82 (0001 "a/b+/c" 00)`, 0},
		{"UNSUBSCRIBE with flags 0", `A0 (0001 "a")`, 0},
		{"UNSUBSCRIBE with identifier 0", `A2 (0000 "a")`, 0},
		{"UNSUBSCRIBE without a filter", `A2 (0001)`, 0},
		{"UNSUBSCRIBE from a filter not UTF-8", `A2 (0001 0001 FF)`, 0},
		{"PINGREQ with flags", `C1 00`, 0},
		{"PINGREQ with a body", `C0 (00)`, 0},
		{"DISCONNECT with a body", `E0 (00)`, 0},
		{"AUTH", `F0 00`, 0},
		{"CONNACK", `20 (00 00)`, 0},
		{"SUBACK", `90 (0001 00)`, 0},
		{"UNSUBACK", `B0 (0001)`, 0},
		{"PINGRESP", `D0 00`, 0},
		{"packet type 0", `00 00`, 0},
		{"a remaining length of five bytes", `30 FFFFFFFF01`, 0},
		{"a packet larger than the broker takes", `30 FFFFFF7F`, 0},
	})
	// What 3.1 leaves open and 3.1.1 forbids.
	closes(t, []mqtt.Version{mqtt.V311}, []broken{{"PUBLISH at QoS 0 with DUP", `38 ("a" 'x')`, 0}})
}

func TestDISCONNECTFlagsBeforeMQTT5(t *testing.T) {
	t.Parallel()
	shows(t, "3.1.1 MQTT-3.14.1-1", "3.1.1 MQTT-4.8.0-1")
	each(t, oldVersions, func(t *testing.T, v mqtt.Version) {
		// It closes either way; the will tells that it was not taken for a DISCONNECT.
		topic := topicOf()
		sub := watcher(t, topic, 1)
		c := broker.Connect(t, v, "dev-a", will(topic, "gone"))
		c.SendWire(`E1 00`)
		c.ExpectClosed()
		sub.ExpectPublish(topic, "gone")
	})
}

func TestAQoS0PublishWithDUPIsMalformedSince311(t *testing.T) {
	t.Parallel()
	shows(t, "3.1.1 MQTT-3.3.1-2", "5 MQTT-3.3.1-2")
	each(t, []mqtt.Version{mqtt.V311, mqtt.V5}, func(t *testing.T, v mqtt.Version) {
		c := broker.Connect(t, v, "dev-a")
		raw := c.PublishPacket(topicOf(), 0, "x").Append(nil, v)
		raw[0] |= 8
		c.SendRaw(raw)
		c.ExpectRefusal(mqtt.MalformedPacket)
	})
}

func TestNothingIsReadAfterDISCONNECT(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.14.4-1", "5 MQTT-3.14.4-2")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		topic := topicOf()
		sub := watcher(t, topic, 1)
		c := broker.Connect(t, v, "dev-a")
		batch := (&mqtt.Disconnect{}).Append(nil, v)
		batch = c.PublishPacket(topic, 1, "after").Append(batch, v)
		c.SendRaw(mqtt.AppendPingreq(batch))
		c.ExpectClosed()
		publisher(t).Publish(topic, 1, "end")
		sub.ExpectPublish(topic, "end")
	})
}

// The same for the broker: a client that goes on talking gets the DISCONNECT and
// nothing after it.
func TestNothingFollowsTheBrokersDISCONNECT(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-3.14.4-1", "5 MQTT-3.14.4-2", "5 MQTT-3.14.2-1", "5 MQTT-3.14.2-2")
	c := broker.Connect(t, mqtt.V5, "dev-a")
	c.SendRaw(append(mqtttest.Wire(`C1 00`), []byte(strings.Repeat("\xC0\x00", 500))...))
	if d := c.ExpectDisconnect(mqtt.MalformedPacket); d.HasSessionExpiry {
		c.Fatalf("a broker's DISCONNECT with a Session Expiry")
	}
}

// A payload that calls itself UTF-8 and is not. The standard lets a receiver
// refuse it; JSON values are checked whatever they call themselves, opaque bytes are
// not looked into.
func TestPayloadFormatIsWhatThePublisherSays(t *testing.T) {
	t.Parallel()
	shows(t, "5 D5-08", "5 MQTT-3.3.2-4")
	utf8 := func(p *mqtt.Publish) { p.Properties.PayloadFormat, p.Properties.HasPayloadFormat = 1, true }
	c := broker.Connect(t, mqtt.V5, "dev-a")
	if code := c.TryPublish("json/x", 1, "\"\xff\"", utf8); code != mqtt.PayloadFormatInvalid {
		c.Fatalf("%s, want %s", code.Error(), mqtt.PayloadFormatInvalid.Error())
	}
	if code := c.TryPublish(topicOf(), 1, "\xff", utf8); code != mqtt.PayloadFormatInvalid && code != mqtt.Success {
		c.Fatalf("%s", code.Error())
	}
	c.ExpectNothing()
}
