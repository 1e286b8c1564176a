package conformance

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/mqtttest"
)

// broker is what the tests share. Tests that need other settings start their own.
var broker *mqtttest.Broker

func TestMain(m *testing.M) {
	flag.Parse()
	// Most of a test here is waiting, for the disk or for a second to pass.
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = flag.Set("test.parallel", "24")
	}
	var err error
	broker, err = mqtttest.Open(func(c *config.Config) {
		// Many tests leave sessions behind and sign in wrongly; that is not what they are about.
		c.Limits.MaxOfflineSessions, c.Limits.AuthFailureThreshold = 10_000, 10_000
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := broker.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the shared broker:", err)
		code = 1
	}
	os.Exit(code)
}

// The versions a test runs for. MQTT 3.1 is tried along where its text says the same.
var (
	everyVersion = []mqtt.Version{mqtt.V31, mqtt.V311, mqtt.V5}
	oldVersions  = []mqtt.Version{mqtt.V31, mqtt.V311}
)

// each runs f for each version, side by side.
func each(t *testing.T, versions []mqtt.Version, f func(t *testing.T, v mqtt.Version)) {
	t.Helper()
	for _, v := range versions {
		t.Run(v.String(), func(t *testing.T) {
			t.Parallel()
			f(t, v)
		})
	}
}

// topicOf is a topic no other test uses; it takes any payload.
func topicOf() string { return "raw/" + broker.Name() }

// persistent asks for a session that outlives its connection.
func persistent(p *mqtt.Connect) { p.CleanStart, p.SessionExpiry = false, 600 }

// named sets the client identifier.
func named(id string) func(*mqtt.Connect) { return func(p *mqtt.Connect) { p.ClientID = id } }

// all applies several options in turn.
func all(options ...func(*mqtt.Connect)) func(*mqtt.Connect) {
	return func(p *mqtt.Connect) {
		for _, o := range options {
			o(p)
		}
	}
}

// pass lets time pass where the standard speaks of seconds and nothing can be
// waited for.
func pass(d time.Duration) { <-time.After(d) }

// publisher is a client that only publishes.
func publisher(t *testing.T) *mqtttest.Client {
	t.Helper()
	return broker.Connect(t, mqtt.V5, "dev-a")
}

// lose has the connection lost in a way that the broker knows of at once: a CONNECT
// that follows is not a takeover.
func lose(c *mqtttest.Client) {
	c.SendWire(`C1 00`)
	c.ExpectRefusal(mqtt.MalformedPacket)
}
