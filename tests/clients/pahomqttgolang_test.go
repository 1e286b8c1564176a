package clients_test

import (
	"net"
	"net/url"
	"testing"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"maestrohub.io/uns/tests/harness"
)

// pahoMQTTGolang is Eclipse's Go client for MQTT 3.1 and 3.1.1.
func pahoMQTTGolang() vendor {
	return vendor{
		short: "pmg", over: each([]version{v31, v311}, everyTransport...),
		open: openPahoMQTTGolang,
	}
}

type golangV3 struct {
	client   mqtt.Client
	conn     net.Conn
	present  bool
	messages chan message
}

func openPahoMQTTGolang(t *testing.T, o options) session {
	t.Helper()
	s := &golangV3{conn: dial(t, o), messages: make(chan message, 1000)}
	received := func(_ mqtt.Client, m mqtt.Message) {
		s.messages <- message{m.Topic(), m.Qos(), string(m.Payload())}
	}
	settings := mqtt.NewClientOptions().AddBroker("tcp://" + o.Address).SetClientID(o.ClientID).
		SetUsername(o.User).SetPassword(o.Password).SetProtocolVersion(uint(o.Version)).SetCleanSession(o.Clean).
		SetAutoReconnect(false).SetDefaultPublishHandler(received).SetOrderMatters(true).
		SetCustomOpenConnectionFn(func(*url.URL, mqtt.ClientOptions) (net.Conn, error) { return s.conn, nil })
	if o.Will != nil {
		settings.SetWill(o.Will.Topic, o.Will.Payload, o.Will.QoS, false)
	}
	s.client = mqtt.NewClient(settings)
	token := s.client.Connect()
	await(t, token, "connect "+o.ClientID)
	s.present = token.(*mqtt.ConnectToken).SessionPresent()
	return s
}

// await waits for a token's end, which must be a success.
func await(t *testing.T, token mqtt.Token, what string) {
	t.Helper()
	if !token.WaitTimeout(harness.Patience) {
		t.Fatalf("%s: not answered within %s", what, harness.Patience)
	}
	if err := token.Error(); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// Present: MQTT 3.1 has no such flag.
func (s *golangV3) Present() (present, known bool) {
	r := s.client.OptionsReader()
	return s.present, r.ProtocolVersion() > uint(v31)
}

func (s *golangV3) Messages() <-chan message { return s.messages }

func (s *golangV3) Subscribe(t *testing.T, filter string, qos byte) {
	t.Helper()
	token := s.client.Subscribe(filter, qos, nil)
	await(t, token, "subscribe to "+filter)
	if got := token.(*mqtt.SubscribeToken).Result()[filter]; got != qos {
		t.Fatalf("SUBSCRIBE to %s at QoS %d was granted %d", filter, qos, got)
	}
}

func (s *golangV3) Publish(t *testing.T, m message) {
	t.Helper()
	await(t, s.client.Publish(m.Topic, m.QoS, false, m.Payload), "publish "+m.String())
}

func (s *golangV3) Disconnect(*testing.T) { s.client.Disconnect(250) }

func (s *golangV3) Drop(t *testing.T) {
	t.Helper()
	if err := s.conn.Close(); err != nil {
		t.Fatalf("close connection: %v", err)
	}
}
