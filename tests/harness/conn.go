package harness

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"maestrohub.io/uns/broker/mqtt"
)

// Conn is a client's connection that does nothing by itself: a test writes each
// packet, or each byte, and reads each answer. It is closed when the test ends.
// Its methods fail the test on what they do not expect, so they belong in the
// test's own goroutine; Write and Next do not.
type Conn struct {
	net.Conn
	t       testing.TB
	version mqtt.Version
	buf     []byte // received, not yet taken
	nextID  uint16
}

// Packet is a received packet, its body valid for good.
type Packet struct {
	mqtt.Header
	Body []byte
}

// Dial opens a plain TCP connection.
func (b *Broker) Dial(t testing.TB) *Conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", b.TCP, Patience)
	if err != nil {
		t.Fatal(err)
	}
	return Wrap(t, c)
}

// DialTLS opens a TLS connection; config nil trusts the broker's authority.
func (b *Broker) DialTLS(t testing.TB, config *tls.Config) *Conn {
	t.Helper()
	if config == nil {
		config = &tls.Config{RootCAs: b.Roots(t)}
	}
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: Patience}, "tcp", b.TLS, config)
	if err != nil {
		t.Fatal(err)
	}
	return Wrap(t, c)
}

// Wrap makes a Conn of an open connection.
func Wrap(t testing.TB, c net.Conn) *Conn {
	t.Cleanup(func() { c.Close() })
	return &Conn{Conn: c, t: t, version: mqtt.V5}
}

// ConnectAs returns a CONNECT of MQTT 5 with the credential of an API client and
// an MQTT client id; clean start, no keep alive.
func (b *Broker) ConnectAs(client, id string) mqtt.Connect {
	return mqtt.Connect{
		Version: mqtt.V5, CleanStart: true, ClientID: id, RequestProblemInformation: true,
		Username: client, HasUsername: true, Password: []byte(b.secrets[client]), HasPassword: true,
	}
}

// Client dials and signs in as an API client, with MQTT 5 and clean start.
func (b *Broker) Client(t testing.TB, client, id string) *Conn {
	t.Helper()
	c := b.Dial(t)
	c.Connect(b.ConnectAs(client, id))
	return c
}

// Connect sends a CONNECT and returns the CONNACK, which must be a success. The
// connection speaks the CONNECT's version from then on.
func (c *Conn) Connect(p mqtt.Connect) mqtt.Connack {
	c.t.Helper()
	ack := c.TryConnect(p)
	if ack.Code != mqtt.Success {
		c.t.Fatalf("CONNECT of %s as %q: refused with %v (%s)", p.ClientID, p.Username, ack.Code, ack.ReasonString)
	}
	return ack
}

// TryConnect sends a CONNECT and returns the CONNACK, whatever it says.
func (c *Conn) TryConnect(p mqtt.Connect) mqtt.Connack {
	c.t.Helper()
	c.version = p.Version
	c.Send(p.Append(nil, p.Version))
	var ack mqtt.Connack
	c.decode(c.Expect(mqtt.CONNACK), &ack)
	return ack
}

// Send writes bytes.
func (c *Conn) Send(b []byte) {
	c.t.Helper()
	if err := c.SetWriteDeadline(time.Now().Add(Patience)); err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.Write(b); err != nil {
		c.t.Fatalf("write %d bytes: %v", len(b), err)
	}
}

// Next returns the next packet, or the error that ended the connection, or
// os.ErrDeadlineExceeded if none came in time.
func (c *Conn) Next(within time.Duration) (Packet, error) {
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		return Packet{}, err
	}
	for {
		h, ok, err := mqtt.ParseHeader(c.buf)
		if err != nil {
			return Packet{}, fmt.Errorf("the broker sent a malformed packet: %w", err)
		}
		if size := h.Size + h.Remaining; ok && len(c.buf) >= size {
			body := append([]byte(nil), c.buf[h.Size:size]...)
			c.buf = c.buf[size:]
			return Packet{h, body}, nil
		}
		chunk := make([]byte, 64<<10)
		n, err := c.Read(chunk)
		c.buf = append(c.buf, chunk[:n]...)
		if err != nil && n == 0 {
			return Packet{}, err
		}
	}
}

// Expect returns the next packet, which must be of the type.
func (c *Conn) Expect(want mqtt.PacketType) Packet {
	c.t.Helper()
	p, err := c.Next(Patience)
	if err != nil {
		c.t.Fatalf("waited for %v: %v", want, err)
	}
	if p.Type != want {
		c.t.Fatalf("received %v%s, want %v", p.Type, c.reason(p), want)
	}
	return p
}

// ExpectNothing makes sure that the broker has nothing to say: it answers a
// PINGREQ and nothing before.
func (c *Conn) ExpectNothing() {
	c.t.Helper()
	c.Send(mqtt.AppendPingreq(nil))
	c.Expect(mqtt.PINGRESP)
}

// ExpectClosed waits for the connection's end. It returns the reason code of the
// DISCONNECT before it, or 0 if none came; any other packet fails the test.
func (c *Conn) ExpectClosed() mqtt.ReasonCode {
	c.t.Helper()
	var code mqtt.ReasonCode
	for {
		p, err := c.Next(Patience)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			c.t.Fatalf("the connection is still open after %s", Patience)
		case err != nil:
			return code // closed, whether by FIN or RST
		case p.Type == mqtt.DISCONNECT:
			var d mqtt.Disconnect
			c.decode(p, &d)
			code = d.Code
		default:
			c.t.Fatalf("received %v, want the connection to be closed", p.Type)
		}
	}
}

// Subscribe subscribes to one filter and returns the granted QoS or reason code.
func (c *Conn) Subscribe(filter string, qos byte) mqtt.ReasonCode {
	c.t.Helper()
	s := mqtt.Subscribe{PacketID: c.id(), Filters: []mqtt.Subscription{{Filter: filter, QoS: qos}}}
	c.Send(s.Append(nil, c.version))
	var ack mqtt.Suback
	c.decode(c.Expect(mqtt.SUBACK), &ack)
	if ack.PacketID != s.PacketID || len(ack.Codes) != 1 {
		c.t.Fatalf("SUBACK %+v to SUBSCRIBE %d of one filter", ack, s.PacketID)
	}
	return ack.Codes[0]
}

// Publish publishes and returns the reason code that ended the handshake, reading
// nothing but its packets; 0 at once for QoS 0.
func (c *Conn) Publish(topic string, qos byte, payload string) mqtt.ReasonCode {
	c.t.Helper()
	p := mqtt.Publish{QoS: qos, Topic: []byte(topic), Payload: []byte(payload)}
	if qos > 0 {
		p.PacketID = c.id()
	}
	c.Send(p.Append(nil, c.version))
	var ack mqtt.Ack
	switch qos {
	case 1:
		c.decode(c.Expect(mqtt.PUBACK), &ack)
	case 2:
		c.decode(c.Expect(mqtt.PUBREC), &ack)
		if ack.Code < 0x80 {
			c.Send(mqtt.AppendAck(nil, c.version, mqtt.PUBREL, p.PacketID, 0))
			c.decode(c.Expect(mqtt.PUBCOMP), &ack)
		}
	}
	if ack.PacketID != p.PacketID {
		c.t.Fatalf("acknowledgment of packet %d, want %d", ack.PacketID, p.PacketID)
	}
	return ack.Code
}

// Receive returns the next packet, which must be a PUBLISH, and acknowledges it
// to the end of its handshake.
func (c *Conn) Receive() mqtt.Publish {
	c.t.Helper()
	packet := c.Expect(mqtt.PUBLISH)
	var p mqtt.Publish
	c.decode(packet, &p)
	switch p.QoS {
	case 1:
		c.Send(mqtt.AppendAck(nil, c.version, mqtt.PUBACK, p.PacketID, 0))
	case 2:
		c.Send(mqtt.AppendAck(nil, c.version, mqtt.PUBREC, p.PacketID, 0))
		c.Expect(mqtt.PUBREL)
		c.Send(mqtt.AppendAck(nil, c.version, mqtt.PUBCOMP, p.PacketID, 0))
	}
	return p
}

// decoder is what every packet but CONNECT is.
type decoder interface {
	Decode(mqtt.Version, mqtt.Header, []byte) error
}

func (c *Conn) decode(p Packet, into decoder) {
	c.t.Helper()
	if err := into.Decode(c.version, p.Header, p.Body); err != nil {
		c.t.Fatalf("%v from the broker does not decode: %v", p.Type, err)
	}
}

// reason says what a DISCONNECT gave as its reason, for messages.
func (c *Conn) reason(p Packet) string {
	var d mqtt.Disconnect
	if p.Type != mqtt.DISCONNECT || d.Decode(c.version, p.Header, p.Body) != nil {
		return ""
	}
	return fmt.Sprintf(" (%v %s)", d.Code, d.ReasonString)
}

// id returns the next packet id.
func (c *Conn) id() uint16 {
	if c.nextID++; c.nextID == 0 {
		c.nextID = 1
	}
	return c.nextID
}
