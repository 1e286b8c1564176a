package clients_test

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tools/launch"
)

// driver is a session in a program that speaks the protocol of the package
// comment.
type driver struct {
	process  *launch.Process
	events   *events
	messages chan message
	version  version
	present  bool
}

// open starts a driver program and waits for its CONNACK.
func open(t *testing.T, o options, name, path string, args []string, extra ...string) *driver {
	t.Helper()
	env := append(extra,
		"MQTT_URL="+string(o.Transport)+"://"+o.Address, "MQTT_PATH="+launch.WebSocketPath,
		"MQTT_VERSION="+strconv.Itoa(int(o.Version)), "MQTT_CA="+o.CAFile,
		"MQTT_USER="+o.User, "MQTT_PASSWORD="+o.Password, "MQTT_CLIENT_ID="+o.ClientID,
		"MQTT_CLEAN="+map[bool]string{true: "1", false: "0"}[o.Clean],
	)
	if o.Will != nil {
		env = append(env, "MQTT_WILL_TOPIC="+o.Will.Topic, "MQTT_WILL_PAYLOAD="+o.Will.Payload, fmt.Sprintf("MQTT_WILL_QOS=%d", o.Will.QoS))
	}
	d := &driver{version: o.Version, messages: make(chan message, 1000)}
	d.process = harness.Program(t, launch.Spec{Name: name + " " + o.ClientID, Path: path, Args: args, Env: env, Interactive: true})
	d.events = follow(d.process, func(words []string) bool {
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
	d.present = d.events.expect(t, "connected")[1] == "1"
	return d
}

// Present: MQTT 3.1 has no such flag.
func (d *driver) Present() (present, known bool) { return d.present, d.version > v31 }

func (d *driver) Messages() <-chan message { return d.messages }

// do sends a command and waits for its event.
func (d *driver) do(t *testing.T, event string, words ...string) []string {
	t.Helper()
	if err := d.process.Send(strings.Join(words, "\t") + "\n"); err != nil {
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
	<-d.process.Exited()
}

func (d *driver) Drop(t *testing.T) {
	t.Helper()
	if err := d.process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-d.process.Exited()
}
