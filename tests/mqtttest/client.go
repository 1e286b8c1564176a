package mqtttest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/broker/mqtt"
)

// Client is one connection of a client that does what the test says and nothing
// else.
type Client struct {
	// Version is what Send encodes and the Expects decode as.
	Version mqtt.Version
	// Broker and User are set by Broker.Connect: the API client it signed in as.
	Broker *Broker
	User   string
	// ID is the client identifier of the last Connect.
	ID string
	// Connack is the answer to the last Connect.
	Connack *mqtt.Connack
	// AutoAck answers PUBLISH and PUBREL as they are read; a PUBREL so answered is
	// not seen by the Expects.
	AutoAck bool

	t       testing.TB
	conn    net.Conn
	buf     []byte   // read and not yet taken
	kept    []Packet // taken while an answer was waited for
	history []string
	nextID  uint16
}

// NewClient speaks MQTT over an open connection, which it closes at the end of the
// test.
func NewClient(t testing.TB, v mqtt.Version, nc net.Conn) *Client {
	c := &Client{Version: v, t: t, conn: nc}
	t.Cleanup(c.Drop)
	return c
}

// Drop closes the connection without a word, as a network that fails.
func (c *Client) Drop() { _ = c.conn.Close() }

// Conn is the connection itself.
func (c *Client) Conn() net.Conn { return c.conn }

// Appender is a packet that can be encoded: every packet of package mqtt.
type Appender interface {
	Append(dst []byte, v mqtt.Version) []byte
}

// Send sends one packet.
func (c *Client) Send(p Appender) {
	c.t.Helper()
	c.SendRaw(p.Append(nil, c.Version))
}

// SendRaw sends bytes as they are. A connection that takes them no longer is not
// an error here: the test reads next how it ended.
func (c *Client) SendRaw(b []byte) {
	c.t.Helper()
	c.note("-> " + describeSent(b))
	_ = c.conn.SetWriteDeadline(time.Now().Add(Timeout))
	if _, err := c.conn.Write(b); err != nil {
		c.note("-- write: " + err.Error())
	}
}

// SendWire sends the bytes that text stands for; see Wire.
func (c *Client) SendWire(text string) {
	c.t.Helper()
	c.SendRaw(Wire(text))
}

func describeSent(b []byte) string {
	const most = 160
	name := "bytes"
	if len(b) > 0 {
		name = mqtt.PacketType(b[0] >> 4).String()
	}
	if len(b) > most {
		return fmt.Sprintf("%s %x... of %d bytes", name, b[:most], len(b))
	}
	return fmt.Sprintf("%s %x", name, b)
}

// Next returns the next packet; the test fails if none comes.
func (c *Client) Next() Packet {
	c.t.Helper()
	if len(c.kept) > 0 {
		p := c.kept[0]
		c.kept = c.kept[1:]
		return p
	}
	return c.read()
}

// TryNext returns the next packet, or why there is none: the connection has ended,
// or nothing came within Timeout.
func (c *Client) TryNext() (Packet, error) {
	if len(c.kept) > 0 {
		return c.Next(), nil
	}
	return c.fresh()
}

// fresh takes the next packet off the connection, what was kept left aside.
func (c *Client) fresh() (Packet, error) {
	for {
		p, err := c.tryRead()
		if err != nil || !c.answered(p) {
			return p, err
		}
	}
}

// read is fresh, or the end of the test.
func (c *Client) read() Packet {
	c.t.Helper()
	p, err := c.fresh()
	if err != nil {
		c.Fatalf("waiting for a packet: %v", err)
	}
	return p
}

// tryRead takes the next packet off the connection, or says why there is none.
func (c *Client) tryRead() (Packet, error) {
	_ = c.conn.SetReadDeadline(time.Now().Add(Timeout))
	for {
		h, ok, err := mqtt.ParseHeader(c.buf)
		if err != nil {
			return Packet{}, fmt.Errorf("the broker sent %x: %w", c.buf[:min(len(c.buf), 8)], err)
		}
		if total := h.Size + h.Remaining; ok && len(c.buf) >= total {
			raw := append([]byte(nil), c.buf[:total]...)
			c.buf = c.buf[total:]
			p, err := decodePacket(c.Version, h, raw)
			c.note("<- " + describe(p))
			if err != nil {
				return p, fmt.Errorf("the broker sent a packet that does not decode: %w", err)
			}
			return p, nil
		}
		chunk := make([]byte, 16<<10)
		n, err := c.conn.Read(chunk)
		c.buf = append(c.buf, chunk[:n]...)
		if n == 0 && err != nil {
			return Packet{}, err
		}
	}
}

// answered is AutoAck: it reports whether p is dealt with and not for the test.
func (c *Client) answered(p Packet) bool {
	if !c.AutoAck {
		return false
	}
	switch content := p.Content.(type) {
	case *mqtt.Publish:
		c.ackFirst(content)
	case *mqtt.Ack:
		if content.Type == mqtt.PUBREL {
			c.Send(&mqtt.Ack{Type: mqtt.PUBCOMP, PacketID: content.PacketID})
			return true
		}
	}
	return false
}

func (c *Client) ackFirst(p *mqtt.Publish) {
	switch p.QoS {
	case 1:
		c.Send(&mqtt.Ack{Type: mqtt.PUBACK, PacketID: p.PacketID})
	case 2:
		c.Send(&mqtt.Ack{Type: mqtt.PUBREC, PacketID: p.PacketID})
	}
}

func (c *Client) note(line string) { c.history = append(c.history, line) }

// History is what was sent and received so far.
func (c *Client) History() string {
	const most = 60
	lines := c.history
	if len(lines) > most {
		lines = append([]string{fmt.Sprintf("   (%d lines before)", len(lines)-most)}, lines[len(lines)-most:]...)
	}
	return strings.Join(lines, "\n")
}

// Fatalf fails the test with the history of the connection.
func (c *Client) Fatalf(format string, args ...any) {
	c.t.Helper()
	c.t.Fatalf("client %q (MQTT %s): %s\n%s", c.ID, c.Version, fmt.Sprintf(format, args...), c.History())
}

// closedBy reports whether err is the end of a connection rather than a wait
// that was in vain.
func closedBy(err error) bool {
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() {
		return false
	}
	return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || err != nil
}
