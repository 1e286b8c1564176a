package clients_test

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tools/launch"
)

// driver is a session that is driven by the lines of the package comment.
type driver struct {
	version  version
	send     func(line string) error
	drop     func() error // ends the connection without a word
	events   *events
	messages chan message
	present  string // as the client said it
}

// newDriver follows the lines of a client and waits for its CONNACK.
func newDriver(t *testing.T, o options, name string, lines iter.Seq[string], send func(string) error, drop func() error) *driver {
	t.Helper()
	d := &driver{version: o.Version, send: send, drop: drop, messages: make(chan message, 1000)}
	d.events = follow(name+" "+o.ClientID, lines, func(words []string) bool {
		if words[0] != "message" || len(words) != 4 {
			return false
		}
		qos, err := strconv.Atoi(words[2])
		if err != nil {
			return false
		}
		d.messages <- message{words[1], byte(qos), words[3]}
		return true
	}, func() { close(d.messages) })
	d.present = d.events.expect(t, "connected")[1]
	return d
}

// openProgram starts a program that takes its options from the environment.
func openProgram(t *testing.T, o options, name, path string, args ...string) session {
	t.Helper()
	env := []string{
		"MQTT_URL=" + string(o.Transport) + "://" + o.Address, "MQTT_PATH=" + launch.WebSocketPath,
		"MQTT_VERSION=" + strconv.Itoa(int(o.Version)), "MQTT_CA=" + o.CAFile,
		"MQTT_USER=" + o.User, "MQTT_PASSWORD=" + o.Password, "MQTT_CLIENT_ID=" + o.ClientID,
		"MQTT_CLEAN=" + map[bool]string{true: "1", false: "0"}[o.Clean],
	}
	if o.Will != nil {
		env = append(env, "MQTT_WILL_TOPIC="+o.Will.Topic, "MQTT_WILL_PAYLOAD="+o.Will.Payload, fmt.Sprintf("MQTT_WILL_QOS=%d", o.Will.QoS))
	}
	p := harness.Program(t, launch.Spec{Name: name + " " + o.ClientID, Path: path, Args: args, Env: env, Interactive: true})
	return newDriver(t, o, name, p.Lines(), p.Send, func() error { return p.Signal(syscall.SIGKILL) })
}

// Present: MQTT 3.1 has no such flag.
func (d *driver) Present() (present, known bool) {
	return d.present == "1", d.version > v31 && d.present != "-1"
}

func (d *driver) Messages() <-chan message { return d.messages }

// do sends a command and waits for its event.
func (d *driver) do(t *testing.T, event string, words ...string) []string {
	t.Helper()
	if err := d.send(strings.Join(words, "\t") + "\n"); err != nil {
		t.Fatal(err)
	}
	return d.events.expect(t, event)
}

func (d *driver) Subscribe(t *testing.T, filter string, qos byte) {
	t.Helper()
	if got := d.do(t, "subscribed", "subscribe", filter, strconv.Itoa(int(qos))); got[1] != strconv.Itoa(int(qos)) {
		t.Fatalf("SUBSCRIBE to %s at QoS %d was granted %s", filter, qos, got[1])
	}
}

func (d *driver) Publish(t *testing.T, m message) {
	t.Helper()
	d.do(t, "published", "publish", m.Topic, strconv.Itoa(int(m.QoS)), m.Payload)
}

func (d *driver) Disconnect(t *testing.T) {
	t.Helper()
	d.do(t, "disconnected", "disconnect")
}

func (d *driver) Drop(t *testing.T) {
	t.Helper()
	if err := d.drop(); err != nil {
		t.Fatal(err)
	}
}
