package mqtttest

import (
	"fmt"
	"strings"

	"maestrohub.io/uns/broker/mqtt"
)

// Expect returns the next packet, which must be a T: mqtttest.Expect[mqtt.Suback](c).
// Of the acknowledgments (mqtt.Ack) use ExpectAck, which also says which.
func Expect[T any](c *Client) *T {
	c.t.Helper()
	p := c.Next()
	content, ok := p.Content.(*T)
	if !ok {
		var want T
		c.Fatalf("got %s, want %s", p.Header.Type, strings.ToUpper(strings.TrimPrefix(fmt.Sprintf("%T", want), "mqtt.")))
	}
	return content
}

// ExpectPublish returns the next packet, which must be a PUBLISH of that payload
// on that topic of the client's workspace. A topic that names its version is a
// full name. "" as topic is any.
func (c *Client) ExpectPublish(topic, payload string) *mqtt.Publish {
	c.t.Helper()
	p := Expect[mqtt.Publish](c)
	if topic != "" {
		topic = c.Topic(topic)
	}
	if topic != "" && string(p.Topic) != topic || string(p.Payload) != payload {
		c.Fatalf("got %q on %q, want %q on %q", p.Payload, p.Topic, payload, topic)
	}
	return p
}

// ExpectAck returns the next packet, which must be that acknowledgment.
func (c *Client) ExpectAck(t mqtt.PacketType, id uint16, code mqtt.ReasonCode) *mqtt.Ack {
	c.t.Helper()
	p := c.Next()
	a, ok := p.Content.(*mqtt.Ack)
	if !ok || a.Type != t || a.PacketID != id || a.Code != code {
		c.Fatalf("got %s, want %s for %d with %s", describe(p), t, id, code.Error())
	}
	return a
}

// ExpectPing is the answer to a PINGREQ.
func (c *Client) ExpectPing() {
	c.t.Helper()
	if p := c.Next(); p.Header.Type != mqtt.PINGRESP {
		c.Fatalf("got %s, want PINGRESP", describe(p))
	}
}

// ExpectNothing shows that the broker has nothing to say: the next packet is the
// answer to a PINGREQ sent now.
func (c *Client) ExpectNothing() {
	c.t.Helper()
	c.SendRaw(mqtt.AppendPingreq(nil))
	c.ExpectPing()
}

// ExpectDisconnect is a DISCONNECT with that code, and the end of the connection.
func (c *Client) ExpectDisconnect(code mqtt.ReasonCode) *mqtt.Disconnect {
	c.t.Helper()
	d := Expect[mqtt.Disconnect](c)
	if d.Code != code {
		c.Fatalf("disconnected with %s (%q), want %s", d.Code.Error(), d.ReasonString, code.Error())
	}
	c.ExpectClosed()
	return d
}

// ExpectRefusal is how a broker ends a connection for an error of the client: MQTT
// 5 is told why, MQTT 3 has no word for it.
func (c *Client) ExpectRefusal(code mqtt.ReasonCode) {
	c.t.Helper()
	if c.Version >= mqtt.V5 {
		c.ExpectDisconnect(code)
		return
	}
	c.ExpectClosed()
}

// ExpectClosed is the end of the connection, with no packet before it.
func (c *Client) ExpectClosed() {
	c.t.Helper()
	if len(c.kept) > 0 {
		c.Fatalf("got %s, want the end of the connection", describe(c.kept[0]))
	}
	p, err := c.tryRead()
	switch {
	case err == nil:
		c.Fatalf("got %s, want the end of the connection", describe(p))
	case !closedBy(err):
		c.Fatalf("waiting for the end of the connection: %v", err)
	case len(c.buf) > 0:
		c.Fatalf("the connection ended within a packet: %x", c.buf)
	}
	c.note("-- closed by the broker")
}
