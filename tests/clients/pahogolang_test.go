package clients_test

import (
	"context"
	"net"
	"testing"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"maestrohub.io/uns/tests/harness"
)

// pahoGolang is Eclipse's Go client for MQTT 5. It takes an open connection, so
// the test makes it.
func pahoGolang() vendor {
	return vendor{
		short: "pgo", over: each([]version{v5}, everyTransport...),
		open: openPahoGolang,
	}
}

type golangV5 struct {
	client   *paho.Client
	conn     net.Conn
	present  bool
	messages chan message
}

// patient returns a context that ends when the test has waited long enough.
func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	t.Cleanup(cancel)
	return ctx
}

func openPahoGolang(t *testing.T, o options) session {
	t.Helper()
	// The library writes a packet in pieces, from several goroutines; over TLS and
	// WebSocket they would mix without this.
	s := &golangV5{conn: packets.NewThreadSafeConn(dial(t, o)), messages: make(chan message, 1000)}
	s.client = paho.NewClient(paho.ClientConfig{
		Conn: s.conn, ClientID: o.ClientID,
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){func(p paho.PublishReceived) (bool, error) {
			s.messages <- message{p.Packet.Topic, p.Packet.QoS, string(p.Packet.Payload)}
			return true, nil
		}},
	})
	expiry := uint32(300)
	if o.Clean {
		expiry = 0
	}
	connect := &paho.Connect{
		ClientID: o.ClientID, CleanStart: o.Clean, KeepAlive: 60,
		Username: o.User, UsernameFlag: true, Password: []byte(o.Password), PasswordFlag: true,
		Properties: &paho.ConnectProperties{SessionExpiryInterval: &expiry},
	}
	if o.Will != nil {
		connect.WillMessage = &paho.WillMessage{Topic: o.Will.Topic, QoS: o.Will.QoS, Payload: []byte(o.Will.Payload)}
	}
	ack, err := s.client.Connect(patient(t), connect)
	if err != nil {
		t.Fatalf("connect %s: %v", o.ClientID, err)
	}
	s.present = ack.SessionPresent
	return s
}

func (s *golangV5) Present() (present, known bool) { return s.present, true }

func (s *golangV5) Messages() <-chan message { return s.messages }

func (s *golangV5) Subscribe(t *testing.T, filter string, qos byte) {
	t.Helper()
	ack, err := s.client.Subscribe(patient(t), &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: qos}}})
	if err != nil || ack.Reasons[0] != qos {
		t.Fatalf("subscribe to %s at QoS %d: %+v, %v", filter, qos, ack, err)
	}
}

func (s *golangV5) Publish(t *testing.T, m message) {
	t.Helper()
	if _, err := s.client.Publish(patient(t), &paho.Publish{Topic: m.Topic, QoS: m.QoS, Payload: []byte(m.Payload)}); err != nil {
		t.Fatalf("publish %v: %v", m, err)
	}
}

func (s *golangV5) Disconnect(t *testing.T) {
	t.Helper()
	if err := s.client.Disconnect(&paho.Disconnect{}); err != nil {
		t.Fatalf("disconnect: %v", err)
	}
}

func (s *golangV5) Drop(t *testing.T) {
	t.Helper()
	if err := s.conn.Close(); err != nil {
		t.Fatalf("close connection: %v", err)
	}
}
