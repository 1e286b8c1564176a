package conformance

import (
	"bytes"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/mqtttest"
)

// transports are the brokers that have them: a WebSocket is plain or secured.
func transports(t *testing.T) map[string]*mqtttest.Broker {
	t.Helper()
	dir := t.TempDir()
	secure := mqtttest.Start(t, func(c *config.Config) {
		if err := mqtttest.Secure(c, dir); err != nil {
			t.Fatal(err)
		}
	})
	return map[string]*mqtttest.Broker{"tcp": broker, "ws": broker, "tls": secure, "wss": secure}
}

func TestEveryTransportCarriesEveryVersion(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-4.2-1", "3.1.1 MQTT-7.1.1-1", "3.1.1 MQTT-7.0.0-1", "3.1.1 MQTT-7.0.0-2")
	for transport, b := range transports(t) {
		each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
			topic := "raw/" + b.Name()
			sub := b.ConnectOver(t, transport, v, "dev-b", persistent)
			sub.Subscribe(topic, 2)
			pub := b.ConnectOver(t, transport, v, "dev-a", will(topic, "will"))
			large := string(bytes.Repeat([]byte{0, 1, 2, 0xFF}, 100_000))
			for qos := range byte(3) {
				pub.Publish(topic, qos, large)
				sub.Ack(sub.ExpectPublish(topic, large))
			}
			pub.Drop()
			sub.Ack(sub.ExpectPublish(topic, "will"))
			sub.SendWire(`C1 00`)
			sub.ExpectRefusal(mqtt.MalformedPacket)
		})
	}
}

// Packets are read however the stream is cut.
func TestPacketsComeInPiecesAndTogether(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-4.2-1", "5 MQTT-6.0.0-2", "3.1.1 MQTT-6.0.0-2", "3.1.1 MQTT-7.1.1-1")
	for transport, b := range transports(t) {
		each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
			topic := "raw/" + b.Name()
			c := b.Dial(t, v, transport)
			c.Broker = b
			p := b.Credentials("dev-a")
			c.ID, c.User = p.ClientID, p.Username
			session := p.Append(nil, v)
			session = (&mqtt.Subscribe{PacketID: 1, Filters: []mqtt.Subscription{{Filter: c.Topic(topic)}}}).Append(session, v)
			session = c.PublishPacket(topic, 1, "first").Append(session, v)
			session = mqtt.AppendPingreq(session)
			for i := range session { // a byte at a time; over WebSocket a frame each
				c.SendRaw(session[i : i+1])
			}
			c.Connack = mqtttest.Expect[mqtt.Connack](c)
			mqtttest.Expect[mqtt.Suback](c)
			expectInAnyOrder(c, topic, "first")
			// And many in one write.
			batch := c.PublishPacket(topic, 1, "second").Append(nil, v)
			c.SendRaw(mqtt.AppendPingreq(batch))
			expectInAnyOrder(c, topic, "second")
		})
	}
}

// expectInAnyOrder takes a PUBACK, a PINGRESP and the copy, which are not ordered
// among each other.
func expectInAnyOrder(c *mqtttest.Client, topic, payload string) {
	seen := map[mqtt.PacketType]int{}
	for range 3 {
		p := c.Next()
		seen[p.Header.Type]++
		if publish, ok := p.Content.(*mqtt.Publish); ok && (string(publish.Topic) != c.Topic(topic) || string(publish.Payload) != payload) {
			c.Fatalf("got %q on %q", publish.Payload, publish.Topic)
		}
	}
	if seen[mqtt.PUBACK] != 1 || seen[mqtt.PINGRESP] != 1 || seen[mqtt.PUBLISH] != 1 {
		c.Fatalf("got %v, want one PUBACK, one PINGRESP and one PUBLISH", seen)
	}
}

func dialWebSocket(t *testing.T, protocols ...string) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	d := websocket.Dialer{HandshakeTimeout: mqtttest.Timeout, Subprotocols: protocols}
	ws, response, err := d.Dial("ws://"+broker.Address("ws")+broker.Config.Broker.WebSocket.Path, nil)
	if err == nil {
		_ = response.Body.Close()
		t.Cleanup(func() { _ = ws.Close() })
	}
	return ws, response, err
}

func TestTheWebSocketSubprotocolIsMQTT(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-6.0.0-4", "3.1.1 MQTT-6.0.0-4")
	for _, offered := range [][]string{{"mqtt"}, {"chat", "mqtt"}, {"mqtt", "mqttv3.1"}} {
		ws, _, err := dialWebSocket(t, offered...)
		if err != nil {
			t.Fatal(err)
		}
		if ws.Subprotocol() != "mqtt" {
			t.Errorf("offered %q, selected %q, want mqtt", offered, ws.Subprotocol())
		}
	}
	for _, offered := range [][]string{nil, {"chat"}} {
		if _, response, err := dialWebSocket(t, offered...); err == nil || response == nil || response.StatusCode != http.StatusBadRequest {
			t.Errorf("offered %q: %v, want 400", offered, err)
		}
	}
}

func TestOnlyBinaryFramesAreTaken(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-6.0.0-1", "3.1.1 MQTT-6.0.0-1")
	each(t, everyVersion, func(t *testing.T, v mqtt.Version) {
		ws, _, err := dialWebSocket(t, "mqtt")
		if err != nil {
			t.Fatal(err)
		}
		_ = ws.SetReadDeadline(time.Now().Add(mqtttest.Timeout))
		if err := ws.WriteMessage(websocket.BinaryMessage, broker.Credentials("dev-a").Append(nil, v)); err != nil {
			t.Fatal(err)
		}
		kind, frame, err := ws.ReadMessage()
		if err != nil || kind != websocket.BinaryMessage || mqtt.PacketType(frame[0]>>4) != mqtt.CONNACK {
			t.Fatalf("got %x of kind %d (%v), want a CONNACK in a binary frame", frame, kind, err)
		}
		if err := ws.WriteMessage(websocket.TextMessage, mqtt.AppendPingreq(nil)); err != nil {
			t.Fatal(err)
		}
		for {
			kind, frame, err = ws.ReadMessage()
			if err != nil {
				break
			}
			if kind != websocket.BinaryMessage || mqtt.PacketType(frame[0]>>4) == mqtt.PINGRESP {
				t.Fatalf("got %x of kind %d after a text frame", frame, kind)
			}
		}
		var closed *websocket.CloseError
		if !errors.As(err, &closed) {
			t.Fatalf("the WebSocket ended with %v, want a Close frame", err)
		}
	})
}
