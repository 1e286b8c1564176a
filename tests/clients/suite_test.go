package clients_test

import (
	"fmt"
	"strconv"
	"testing"

	"maestrohub.io/uns/tests/harness"
)

const device = "device"

// settings leave the suite's many sessions room. Web pages may connect only from
// the origins named, or from the broker's own host if none is.
func settings(origins []string) map[string]any {
	return map[string]any{
		"embeddedBrokerLimits.maxOfflineSessions": 1000,
		"embeddedBroker.webSocket.allowedOrigins": origins,
	}
}

// brokers are the two brokers the suite runs against: the WebSocket listener is
// WSS as soon as there is a certificate.
type brokers struct{ plain, secure *harness.Broker }

func start(t *testing.T, origins ...string) brokers {
	t.Helper()
	options := harness.Options{Clients: harness.Clients(device), WebSocket: true, Settings: settings(origins)}
	plain := harness.Start(t, options)
	options.TLS = true
	return brokers{plain: plain, secure: harness.Start(t, options)}
}

// options returns how a client connects over a transport.
func (b brokers) options(over transport, v version, id string) options {
	o := options{Version: v, Transport: over, User: device, Password: harness.Secret(device), ClientID: id, Clean: true}
	switch over {
	case tcp:
		o.Address = b.plain.TCP
	case ws:
		o.Address = b.plain.WS
	case overTLS:
		o.Address, o.CAFile = b.secure.TLS, b.secure.CAFile()
	case wss:
		o.Address, o.CAFile = b.secure.WS, b.secure.CAFile()
	}
	return o
}

func (b brokers) of(over transport) *harness.Broker {
	if over == tcp || over == ws {
		return b.plain
	}
	return b.secure
}

// run runs the suite with a client over each version and transport it is for.
func run(t *testing.T, b brokers, v vendor) {
	for _, c := range v.over {
		t.Run(c.String(), func(t *testing.T) {
			// A name in topics and client ids, unlike any other subtest's.
			name := fmt.Sprintf("%s%d%s", v.short, c.version, c.transport)
			s := suite{brokers: b, vendor: v, version: c.version, over: c.transport, name: name}
			t.Run("publish and subscribe", s.publishAndSubscribe)
			t.Run("resume", s.resume)
			t.Run("will", s.will)
		})
	}
}

// suite is one client over one version and transport.
type suite struct {
	brokers
	vendor  vendor
	version version
	over    transport
	name    string
}

func (s suite) open(t *testing.T, role string, change func(*options)) session {
	t.Helper()
	o := s.options(s.over, s.version, s.name+"-"+role)
	if change != nil {
		change(&o)
	}
	return s.vendor.open(t, o)
}

// publishAndSubscribe: a value published at each QoS is acknowledged, stored, and
// arrives at the QoS it was published and subscribed with. The live copy of a QoS
// 0 value is QoS 1, by liveMirror.qos.
func (s suite) publishAndSubscribe(t *testing.T) {
	subscriber, publisher := s.open(t, "sub", nil), s.open(t, "pub", nil)
	topic := s.name + "/values"
	subscriber.Subscribe(t, harness.Data(topic+"/+"), 2)
	for qos, live := range []byte{1, 1, 2} {
		m := message{QoS: byte(qos), Payload: fmt.Sprintf(`{"value":%d.5,"timestamp":1790000000000}`, qos)}
		m.Topic = harness.Inbox(device, fmt.Sprintf("%s/qos%d", topic, qos))
		publisher.Publish(t, m)
		expect(t, subscriber, message{harness.Data(fmt.Sprintf("%s/qos%d", topic, qos)), live, m.Payload})
		harness.Eventually(t, "the value to be in history", func() (bool, string) {
			rows := s.of(s.over).History(t, device, fmt.Sprintf("%s/qos%d", topic, qos))
			return len(rows) == 1 && string(rows[0].Value) == fmt.Sprintf("%d.5", qos), fmt.Sprintf("%+v", rows)
		})
	}
	subscriber.Disconnect(t)
	publisher.Disconnect(t)
}

// resume: a persistent session is there when its client is back, with its
// subscription and everything published meanwhile, in order.
func (s suite) resume(t *testing.T) {
	persistent := func(o *options) { o.Clean = false }
	topic := s.name + "/kept"
	first := s.open(t, "saved", persistent)
	if present, known := first.Present(); known && present {
		t.Error("a session that never was is present")
	}
	first.Subscribe(t, harness.Data(topic), 1)
	first.Disconnect(t)
	publisher := s.open(t, "pub", nil)
	for i := range 5 {
		publisher.Publish(t, message{harness.Inbox(device, topic), 1, strconv.Itoa(i)})
	}
	second := s.open(t, "saved", persistent)
	if present, known := second.Present(); known && !present {
		t.Error("the session is not present")
	}
	for i := range 5 {
		expect(t, second, message{harness.Data(topic), 1, strconv.Itoa(i)})
	}
	publisher.Publish(t, message{harness.Inbox(device, topic), 1, `"live"`})
	expect(t, second, message{harness.Data(topic), 1, `"live"`})
	second.Disconnect(t)
	publisher.Disconnect(t)
}

// will: the will of a client that goes without a word is a value like any other;
// that of one that says goodbye is not sent.
func (s suite) will(t *testing.T) {
	topic := s.name + "/will"
	watcher := s.open(t, "sub", nil)
	watcher.Subscribe(t, harness.Data(topic+"/#"), 1)
	willOn := func(name string) func(*options) {
		return func(o *options) {
			o.Will = &message{harness.Inbox(device, topic+"/"+name), 1, `"gone"`}
		}
	}
	polite := s.open(t, "polite", willOn("polite"))
	polite.Disconnect(t)
	if s.version == v5 && s.vendor.willAtDisconnect {
		expect(t, watcher, message{harness.Data(topic + "/polite"), 1, `"gone"`})
	}
	lost := s.open(t, "lost", willOn("lost"))
	lost.Drop(t)
	expect(t, watcher, message{harness.Data(topic + "/lost"), 1, `"gone"`})
	watcher.Disconnect(t)
}

func TestMosquittoClients(t *testing.T) {
	t.Parallel()
	run(t, start(t), mosquittoClients(t))
}

func TestPahoPython(t *testing.T) {
	t.Parallel()
	run(t, start(t), pahoPython(t))
}

func TestPahoC(t *testing.T) {
	t.Parallel()
	run(t, start(t), pahoC(t))
}

func TestMQTTJS(t *testing.T) {
	t.Parallel()
	run(t, start(t), mqttJS(t))
}

func TestMQTTJSInChromium(t *testing.T) {
	t.Parallel()
	page := openBrowser(t)
	run(t, start(t, page.origin), page.vendor())
}

func TestPahoGolang(t *testing.T) {
	t.Parallel()
	run(t, start(t), pahoGolang())
}

func TestPahoMQTTGolang(t *testing.T) {
	t.Parallel()
	run(t, start(t), pahoMQTTGolang())
}
