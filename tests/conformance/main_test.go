package conformance

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/mqtttest"
	"maestrohub.io/uns/tests/site"
	"maestrohub.io/uns/tools/launch/postgres"
	"maestrohub.io/uns/tools/localcluster/natsserver"
)

var replicas = flag.Int("replicas", 1, "replicas that are the shared broker; connections go to one after the other")

// broker is what the tests share. Tests that need other settings start their own.
var broker *mqtttest.Broker

func TestMain(m *testing.M) {
	flag.Parse()
	// Most of a test here is waiting, for the disk or for a second to pass.
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = flag.Set("test.parallel", "24")
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	often := func(c *config.Config) {
		// Many tests leave sessions behind and sign in wrongly; that is not what they are about.
		c.Limits.MaxOfflineSessions, c.Limits.AuthFailureThreshold = 10_000, 10_000
	}
	if *replicas == 1 {
		if broker, err = mqtttest.Open(often); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, broker.Close()) }()
		return m.Run(), nil
	}
	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	s, err := site.Open(context.Background(), dir, natsserver.Options{})
	if err != nil {
		return 0, err
	}
	defer s.Close()
	// One history for all: by its positions replicas know which value of a topic is the later.
	history, err := postgres.Prepare(context.Background(), postgres.Options{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, history.Remove()) }()
	if err := history.Start(context.Background()); err != nil {
		return 0, err
	}
	var all []*mqtttest.Broker
	defer func() {
		for _, b := range all {
			err = errors.Join(err, b.Close())
		}
	}()
	for i := range *replicas {
		b, err := mqtttest.Open(func(c *config.Config) {
			s.Configure(c, fmt.Sprintf("uns-%d", i))
			c.Historian.Type, c.Historian.TimescaleURL = config.Timescale, config.NewSecret(history.URL("postgres"))
			often(c)
		})
		if err != nil {
			return 0, err
		}
		all = append(all, b)
	}
	for _, b := range all {
		if err := linked(b); err != nil {
			return 0, err
		}
	}
	broker = all[0]
	broker.Beside(all[1:]...)
	return m.Run(), nil
}

// linked waits until a replica is linked to all others.
func linked(b *mqtttest.Broker) error {
	want := fmt.Sprintf("maestrohub_uns_broker_cluster_mesh_links_up %d\n", *replicas-1)
	late := time.After(time.Minute)
	for {
		answer, err := http.Get("http://" + b.Address("http") + "/metrics")
		if err != nil {
			return err
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || strings.Contains(string(text), want) {
			return err
		}
		select {
		case <-late:
			return fmt.Errorf("a replica is not linked to the others:\n%s", b.Logged())
		case <-time.After(10 * time.Millisecond):
		}
	}
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
