package clients_test

import (
	"fmt"
	"testing"
	"time"

	"maestrohub.io/uns/tests/harness"
)

// version is a protocol version by its CONNECT protocol level.
type version int

const (
	v31  version = 3
	v311 version = 4
	v5   version = 5
)

func (v version) String() string {
	return map[version]string{v31: "MQTT 3.1", v311: "MQTT 3.1.1", v5: "MQTT 5"}[v]
}

// transport is the scheme of a broker address.
type transport string

const (
	tcp     transport = "tcp"
	overTLS transport = "tls"
	ws      transport = "ws"
	wss     transport = "wss"
)

// options say how a client is to connect.
type options struct {
	Version   version
	Transport transport
	Address   string // host:port
	CAFile    string // the certificate to trust
	User      string
	Password  string
	ClientID  string
	Clean     bool
	Will      *message
}

// message is a received or published message.
type message struct {
	Topic   string
	QoS     byte
	Payload string
}

func (m message) String() string { return fmt.Sprintf("%s at QoS %d on %s", m.Payload, m.QoS, m.Topic) }

// session is one connection of a third-party client; opening it waits for the
// CONNACK. Each method waits until the broker has answered and fails the test if
// it refuses or does not.
type session interface {
	// Present says whether the CONNACK said that the session was present; known is
	// false if the client does not tell.
	Present() (present, known bool)
	Subscribe(t *testing.T, filter string, qos byte)
	Publish(t *testing.T, m message)
	Messages() <-chan message
	// Disconnect leaves with a DISCONNECT.
	Disconnect(t *testing.T)
	// Drop ends the connection without one.
	Drop(t *testing.T)
}

// vendor is a third-party client.
type vendor struct {
	short string // begins its client ids, of which MQTT 3.1 allows 23 bytes
	over  []combination
	open  func(t *testing.T, o options) session
	// willAtDisconnect: the client asks for its will when it is told to leave
	// (DISCONNECT 0x04 of MQTT 5).
	willAtDisconnect bool
}

// combination is a protocol version over a transport.
type combination struct {
	version   version
	transport transport
}

func (c combination) String() string { return fmt.Sprintf("%s over %s", c.version, c.transport) }

// each combines the versions with the transports.
func each(versions []version, transports ...transport) (all []combination) {
	for _, v := range versions {
		for _, over := range transports {
			all = append(all, combination{v, over})
		}
	}
	return all
}

// receive returns the next message of a session.
func receive(t *testing.T, s session) message {
	t.Helper()
	select {
	case m, ok := <-s.Messages():
		if !ok {
			t.Fatal("the client ended while a message was awaited")
		}
		return m
	case <-time.After(harness.Patience):
		t.Fatalf("no message came within %s", harness.Patience)
	}
	panic("unreachable")
}

// expect receives one message, which must be this one.
func expect(t *testing.T, s session, want message) {
	t.Helper()
	if got := receive(t, s); got != want {
		t.Fatalf("received %v, want %v", got, want)
	}
}
