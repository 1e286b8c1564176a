package clients_test

import (
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tools/launch"
)

// mosquittoClients are mosquitto_sub and mosquitto_pub. They have no prompt: a
// session is a mosquitto_sub that starts when it subscribes, and each publish is a
// mosquitto_pub of its own. Debian's speak no WebSocket.
func mosquittoClients(t *testing.T) vendor {
	harness.Require(t, "/usr/bin/mosquitto_sub", "/usr/bin/mosquitto_pub")
	filters := map[string]message{} // of persistent sessions, by client id
	return vendor{
		short: "mos", over: each(everyVersion, tcp, overTLS),
		willAtDisconnect: true,
		open: func(t *testing.T, o options) session {
			s := &mosquitto{options: o, filters: filters, messages: make(chan message, 1000)}
			if known, ok := filters[o.ClientID]; !o.Clean && ok {
				// mosquitto_sub cannot come back without subscribing again.
				s.Subscribe(t, known.Topic, known.QoS)
			} else if o.Will != nil {
				// Nor be there without a subscription.
				s.Subscribe(t, harness.Data("nothing/"+o.ClientID), 0)
			}
			return s
		},
	}
}

type mosquitto struct {
	options
	filters    map[string]message
	subscriber *launch.Process // nil before Subscribe
	messages   chan message
}

func (m *mosquitto) Present() (present, known bool) { return false, false }

func (m *mosquitto) Messages() <-chan message { return m.messages }

// arguments are what both programs take to connect.
func (m *mosquitto) arguments(id string) []string {
	host, port, _ := net.SplitHostPort(m.Address)
	a := []string{"-h", host, "-p", port, "-u", m.User, "-P", m.Password, "-i", id,
		"-V", map[version]string{v31: "mqttv31", v311: "mqttv311", v5: "mqttv5"}[m.Version]}
	if m.CAFile != "" {
		a = append(a, "--cafile", m.CAFile)
	}
	return a
}

func (m *mosquitto) Subscribe(t *testing.T, filter string, qos byte) {
	t.Helper()
	args := append(m.arguments(m.ClientID), "-d", "-t", filter, "-q", strconv.Itoa(int(qos)), "-F", "message\t%t\t%q\t%p")
	if !m.Clean {
		m.filters[m.ClientID] = message{Topic: filter, QoS: qos}
		args = append(args, "-c")
		if m.Version == v5 {
			args = append(args, "-x", "300")
		}
	}
	if m.Will != nil {
		args = append(args, "--will-topic", m.Will.Topic, "--will-payload", m.Will.Payload, "--will-qos", strconv.Itoa(int(m.Will.QoS)))
	}
	m.subscriber = harness.Program(t, launch.Spec{
		// A line at a time, although its output is no terminal.
		Name: "mosquitto_sub " + m.ClientID, Path: "/usr/bin/stdbuf", Args: append([]string{"-oL", "/usr/bin/mosquitto_sub"}, args...),
	})
	events := follow(m.subscriber.Name(), m.subscriber.Lines(), func(words []string) bool {
		if words[0] != "message" {
			return false
		}
		qos, _ := strconv.Atoi(words[2]) // anything else fails the comparison
		m.messages <- message{words[1], byte(qos), words[3]}
		return true
	}, func() { close(m.messages) })
	events.expect(t, "Subscribed (mid: 1): "+strconv.Itoa(int(qos)))
}

func (m *mosquitto) Publish(t *testing.T, v message) {
	t.Helper()
	p := harness.Program(t, launch.Spec{
		Name: "mosquitto_pub", Path: "/usr/bin/mosquitto_pub",
		Args: append(m.arguments(m.ClientID+"-pub"), "-t", v.Topic, "-q", strconv.Itoa(int(v.QoS)), "-m", v.Payload),
	})
	<-p.Exited()
	if out := strings.TrimSpace(p.Output()); out != "" {
		t.Fatalf("mosquitto_pub of %v: %s", v, out)
	}
}

func (m *mosquitto) Disconnect(t *testing.T) { m.end(t, syscall.SIGINT) }

func (m *mosquitto) Drop(t *testing.T) { m.end(t, syscall.SIGKILL) }

// end ends mosquitto_sub; on SIGINT it says DISCONNECT first.
func (m *mosquitto) end(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if m.subscriber == nil {
		return
	}
	if err := m.subscriber.Signal(signal); err != nil {
		t.Fatal(err)
	}
	<-m.subscriber.Exited()
}
