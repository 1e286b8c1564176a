package mqtttest

import (
	"strings"
	"testing"

	"maestrohub.io/uns/broker/mqtt"
)

// Credentials is a CONNECT of an API client of this package: its secret, a client
// identifier of its own, a clean start, no keep alive. options change it.
func (b *Broker) Credentials(user string, options ...func(*mqtt.Connect)) *mqtt.Connect {
	p := &mqtt.Connect{CleanStart: true, ClientID: b.Name(), Username: user, HasUsername: true,
		Password: []byte(Secret(user)), HasPassword: true, RequestProblemInformation: true}
	for _, o := range options {
		o(p)
	}
	return p
}

// Connect opens a TCP connection, signs in as an API client of this package, and
// fails the test if it is refused.
func (b *Broker) Connect(t testing.TB, v mqtt.Version, user string, options ...func(*mqtt.Connect)) *Client {
	t.Helper()
	return b.ConnectOver(t, "tcp", v, user, options...)
}

// ConnectOver is Connect over the transport of that name.
func (b *Broker) ConnectOver(t testing.TB, transport string, v mqtt.Version, user string, options ...func(*mqtt.Connect)) *Client {
	t.Helper()
	c := b.Dial(t, v, transport)
	c.Broker = b
	if a := c.Connect(b.Credentials(user, options...)); a.Code != mqtt.Success {
		c.Fatalf("refused with %s (%q), want to be connected", a.Code.Error(), a.ReasonString)
	}
	return c
}

// Again connects anew under the same client identifier as the same API client,
// without a clean start unless options say so. The old connection is left as it is.
func (c *Client) Again(options ...func(*mqtt.Connect)) *Client {
	c.t.Helper()
	same := func(p *mqtt.Connect) { p.ClientID, p.CleanStart = c.ID, false }
	return c.Broker.Connect(c.t, c.Version, c.User, append([]func(*mqtt.Connect){same}, options...)...)
}

// Connect sends the CONNECT and returns its CONNACK, whatever it says.
func (c *Client) Connect(p *mqtt.Connect) *mqtt.Connack {
	c.t.Helper()
	c.ID, c.User = p.ClientID, p.Username
	c.Send(p)
	c.Connack = Expect[mqtt.Connack](c)
	if c.Connack.AssignedClientID != "" {
		c.ID = c.Connack.AssignedClientID
	}
	return c.Connack
}

// Disconnect sends DISCONNECT 0x00 and waits for the end of the connection.
func (c *Client) Disconnect() {
	c.t.Helper()
	c.Send(&mqtt.Disconnect{})
	c.ExpectClosed()
}

// NextID is a packet identifier this client has not used yet.
func (c *Client) NextID() uint16 {
	c.nextID++
	return c.nextID
}

// Topic is the full name of a topic of the client's workspace; a name or filter
// that is full already, or begins with $, stays.
func (c *Client) Topic(topic string) string {
	switch {
	case strings.HasPrefix(topic, version+"/"), strings.HasPrefix(topic, "$"):
		return topic
	default:
		return Data(workspaceOf(c.User), topic)
	}
}

// PublishPacket is a PUBLISH into the client's inbox, with the next packet identifier where
// the QoS asks for one. options change it.
func (c *Client) PublishPacket(topic string, qos byte, payload string, options ...func(*mqtt.Publish)) *mqtt.Publish {
	p := &mqtt.Publish{Topic: []byte(Inbox(c.User, topic)), QoS: qos, Payload: []byte(payload)}
	if qos > 0 {
		p.PacketID = c.NextID()
	}
	for _, o := range options {
		o(p)
	}
	return p
}

// Publish publishes into the client's inbox and waits for the whole handshake of
// its QoS. The test fails if the value is refused.
func (c *Client) Publish(topic string, qos byte, payload string, options ...func(*mqtt.Publish)) {
	c.t.Helper()
	if code := c.TryPublish(topic, qos, payload, options...); code != mqtt.Success && code != mqtt.NoMatchingSubscribers {
		c.Fatalf("publish %q to %q refused with %s", payload, topic, code.Error())
	}
}

// TryPublish is Publish that returns what the PUBACK or PUBREC said. At QoS 0 it
// says Success once the PUBLISH is written.
func (c *Client) TryPublish(topic string, qos byte, payload string, options ...func(*mqtt.Publish)) mqtt.ReasonCode {
	c.t.Helper()
	p := c.PublishPacket(topic, qos, payload, options...)
	c.Send(p)
	switch p.QoS {
	case 1:
		return c.awaitAck(mqtt.PUBACK, p.PacketID).Code
	case 2:
		code := c.awaitAck(mqtt.PUBREC, p.PacketID).Code
		if code < mqtt.UnspecifiedError {
			c.Send(&mqtt.Ack{Type: mqtt.PUBREL, PacketID: p.PacketID})
			c.awaitAck(mqtt.PUBCOMP, p.PacketID)
		}
		return code
	}
	return mqtt.Success
}

// Subscribe subscribes to a filter below the client's workspace (or a full one) and
// waits for the SUBACK. The test fails if it is refused.
func (c *Client) Subscribe(filter string, qos byte, options ...func(*mqtt.Subscribe)) mqtt.ReasonCode {
	c.t.Helper()
	code := c.TrySubscribe(filter, qos, options...)
	if code >= mqtt.UnspecifiedError {
		c.Fatalf("subscribe to %q refused with %s", filter, code.Error())
	}
	return code
}

// TrySubscribe is Subscribe that returns what the SUBACK said.
func (c *Client) TrySubscribe(filter string, qos byte, options ...func(*mqtt.Subscribe)) mqtt.ReasonCode {
	c.t.Helper()
	p := &mqtt.Subscribe{PacketID: c.NextID(), Filters: []mqtt.Subscription{{Filter: c.Filter(filter), QoS: qos}}}
	for _, o := range options {
		o(p)
	}
	return c.SubscribeAll(p)[0]
}

// Filter is a full filter: a share's is completed behind its share name.
func (c *Client) Filter(filter string) string {
	if rest, shared := strings.CutPrefix(filter, "$share/"); shared {
		share, bare, _ := strings.Cut(rest, "/")
		return "$share/" + share + "/" + c.Topic(bare)
	}
	return c.Topic(filter)
}

// SubscribeAll sends a SUBSCRIBE and returns the codes of its SUBACK.
func (c *Client) SubscribeAll(p *mqtt.Subscribe) []mqtt.ReasonCode {
	c.t.Helper()
	c.Send(p)
	a := c.await("SUBACK", func(got Packet) bool { _, ok := got.Content.(*mqtt.Suback); return ok }).Content.(*mqtt.Suback)
	if a.PacketID != p.PacketID || len(a.Codes) != len(p.Filters) {
		c.Fatalf("SUBACK for %d with %d codes, want %d with %d", a.PacketID, len(a.Codes), p.PacketID, len(p.Filters))
	}
	return a.Codes
}

// Unsubscribe ends subscriptions and waits for the UNSUBACK.
func (c *Client) Unsubscribe(filters ...string) *mqtt.Unsuback {
	c.t.Helper()
	p := &mqtt.Unsubscribe{PacketID: c.NextID()}
	for _, f := range filters {
		p.Filters = append(p.Filters, c.Filter(f))
	}
	c.Send(p)
	a := c.await("UNSUBACK", func(got Packet) bool { _, ok := got.Content.(*mqtt.Unsuback); return ok }).Content.(*mqtt.Unsuback)
	if a.PacketID != p.PacketID {
		c.Fatalf("UNSUBACK for %d, want %d", a.PacketID, p.PacketID)
	}
	return a
}

// Ack finishes a delivery: PUBACK, or the whole handshake of QoS 2.
func (c *Client) Ack(p *mqtt.Publish) {
	c.t.Helper()
	if !c.AutoAck {
		c.ackFirst(p)
	}
	if p.QoS == 2 && !c.AutoAck {
		c.awaitAck(mqtt.PUBREL, p.PacketID)
		c.Send(&mqtt.Ack{Type: mqtt.PUBCOMP, PacketID: p.PacketID})
	}
}

func (c *Client) awaitAck(t mqtt.PacketType, id uint16) *mqtt.Ack {
	c.t.Helper()
	return c.await(t.String(), func(p Packet) bool {
		a, ok := p.Content.(*mqtt.Ack)
		return ok && a.Type == t && a.PacketID == id
	}).Content.(*mqtt.Ack)
}

// await returns the first packet that is wanted; PUBLISHes and PUBRELs before it
// are kept for Next. Any other packet fails the test.
func (c *Client) await(what string, wanted func(Packet) bool) Packet {
	c.t.Helper()
	for {
		p := c.read()
		switch {
		case wanted(p):
			return p
		case p.Header.Type == mqtt.PUBLISH, p.Header.Type == mqtt.PUBREL:
			c.kept = append(c.kept, p)
		default:
			c.Fatalf("got %s, want %s", describe(p), what)
		}
	}
}
