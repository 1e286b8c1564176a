package alerts_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/tests/device/fleet"
	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tools/localcluster/deployment"
)

// Settings of the brokers, not of the rules: outages of seconds do what minutes would.
var settings = map[string]any{
	"brokerSessionLogAppendWait":    "4s",
	"brokerSessionLogMaxBytes":      "2MiB",
	"embeddedBroker.maxPacketBytes": "512KiB",
	"historian.hungWriteTimeout":    "2s",
	"historian.retryBudget":         "5s",
}

// broken is a cluster under watch.
type broken struct {
	*deployment.Deployment
	*prometheus
	brokers []*harness.Broker
}

func start(t *testing.T) *broken {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	clients := harness.Clients("device")
	d, err := deployment.Start(ctx, deployment.Options{Binary: harness.Binary(t), Clients: clients, Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, r := range d.Replicas {
				t.Logf("%s printed:\n%s", r.ID, r.Output())
			}
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &broken{Deployment: d}
	targets := map[string]string{}
	for _, r := range d.Replicas {
		b.brokers = append(b.brokers, harness.Attach(r.Broker, clients))
		targets["maestrohub-"+r.ID] = strings.TrimPrefix(r.HTTP, "http://")
	}
	b.prometheus = startPrometheus(t, targets)
	return b
}

// load is devices that publish all the time to persistent sessions on both replicas.
func (b *broken) load(t *testing.T) {
	t.Helper()
	f, err := fleet.Start(t.Context(), fleet.Options{Name: "load", User: "device", Secret: harness.Secret("device"), Seed: 1, Every: 50 * time.Millisecond,
		Inbox: harness.Inbox("device", ""), Data: harness.Data(""), Address: func(home, attempt int) string { return b.Replicas[(home+attempt)%len(b.Replicas)].TCP }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
}

func TestRealFaultsFireTheAlertsThatNameThem(t *testing.T) {
	b := start(t)
	b.load(t)
	if f := b.firing(t); len(f) > 0 {
		t.Fatalf("a whole cluster has alerts: %v", f)
	}

	// From here on values of one side do not get to the other.
	away := b.brokers[1].ConnectAs("device", "away")
	away.CleanStart, away.SessionExpiry = false, 3600
	session := b.brokers[1].Dial(t)
	session.Connect(away)
	if got := session.Subscribe(harness.Data("flood/#"), 1); got != mqtt.GrantedQoS1 {
		t.Fatalf("SUBACK %v", got)
	}
	if err := session.Close(); err != nil {
		t.Fatal(err)
	}
	live := b.brokers[1].Client(t, "device", "live")
	live.Subscribe(harness.Data("flood/#"), 0)
	b.Mesh().Cut()
	cut := time.Now()
	b.flood(t, 64<<20)
	b.fires(t, time.Minute, "MaestroHubUNSBrokerMeshValuesLost")

	// The session comes back for more than its log has kept.
	back := b.brokers[0].Dial(t)
	back.Connect(away)
	b.fires(t, time.Minute, "MaestroHubUNSBrokerSessionLogValuesMissed")
	if err := back.Close(); err != nil {
		t.Fatal(err)
	}

	b.lockHistory(t, func() {
		b.fires(t, time.Minute, "MaestroHubUNSIngestStoreUnavailable")
		b.fires(t, 2*time.Minute, "MaestroHubUNSIngestQuarantined")
	})
	b.newerRecord(t)
	b.fires(t, time.Minute, "MaestroHubUNSBrokerClusterFormatUnreadable")
	b.withoutQuorum(t, func() {
		b.fires(t, time.Minute, "MaestroHubUNSBrokerSessionLogAppendsRefused")
	})
	b.fires(t, time.Minute, "MaestroHubUNSLiveMirrorDropping")
	b.lateRoutes(t)

	b.fires(t, 8*time.Minute, "MaestroHubUNSBrokerRoutesLate")
	b.fires(t, max(time.Minute, time.Until(cut.Add(7*time.Minute))), "MaestroHubUNSBrokerMeshLinksDown")
	b.Mesh().Heal()
	b.resolves(t, time.Minute, "MaestroHubUNSBrokerMeshLinksDown")

	b.allResolve(t, []string{"MaestroHubUNSBrokerMeshValuesLost", "MaestroHubUNSBrokerSessionLogValuesMissed", "MaestroHubUNSIngestQuarantined"})
}

// flood publishes that much, wanted by a live subscriber of the other replica and by a session.
func (b *broken) flood(t *testing.T, bytes int) {
	t.Helper()
	payload := `"` + strings.Repeat("x", 400<<10) + `"`
	publisher := b.brokers[0].Client(t, "device", "flood")
	for n := 0; n*len(payload) < bytes+(8<<20); n++ {
		if got := publisher.Publish(harness.Inbox("device", fmt.Sprintf("flood/%d", n%10)), 1, payload); got != mqtt.Success {
			t.Fatalf("PUBACK %v", got)
		}
	}
}

// lockHistory has every write to the historian hang.
func (b *broken) lockHistory(t *testing.T, while func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), b.Postgres.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var table string
	if err := conn.QueryRow(t.Context(), `SELECT quote_ident(schemaname) || '.value' FROM pg_tables WHERE tablename = 'value_partition'`).Scan(&table); err != nil {
		t.Fatal(err)
	}
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE "+table+" IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	while()
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// newerRecord writes a session of the next release's format.
func (b *broken) newerRecord(t *testing.T) {
	t.Helper()
	nc, err := nats.Connect(b.NATSURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	record := (&cluster.Session{ID: cluster.NewID(), Identity: "device", Workspace: harness.Workspace}).Encode(cluster.Newest)
	record[0] = byte(cluster.Newest) + 1
	if _, err := js.Publish(t.Context(), "$KV."+state.SessionState+".fromthefuture", record); err != nil {
		t.Fatal(err)
	}
}

// withoutQuorum stops two of three NATS servers for longer than a value may wait, and not long enough to fence.
func (b *broken) withoutQuorum(t *testing.T, while func()) {
	t.Helper()
	resume := func() {
		for _, s := range b.NATS.Servers[:2] {
			if err := s.Resume(); err != nil {
				t.Error(err)
			}
		}
	}
	for _, s := range b.NATS.Servers[:2] {
		if err := s.Pause(); err != nil {
			t.Fatal(err)
		}
	}
	timer := time.AfterFunc(8*time.Second, resume)
	while()
	if timer.Stop() {
		resume()
	}
}

// lateRoutes subscribes while the other replica stands still and is a member all the same.
func (b *broken) lateRoutes(t *testing.T) {
	t.Helper()
	connect := b.brokers[0].ConnectAs("device", "late")
	connect.CleanStart, connect.SessionExpiry = false, 3600
	c := b.brokers[0].Dial(t)
	c.Connect(connect)
	before := b.brokers[0].Metric(t, "maestrohub_uns_broker_subscribe_index_wait_timeouts_total")
	if err := b.Replicas[1].Pause(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	got := c.Subscribe(harness.Data("late/#"), 1)
	took := time.Since(began)
	if err := b.Replicas[1].Resume(); err != nil {
		t.Fatal(err)
	}
	if got != mqtt.GrantedQoS1 {
		t.Errorf("SUBACK %v", got)
	}
	t.Logf("a SUBACK that could not wait for the other replica came after %v", took.Round(10*time.Millisecond))
	if late := b.brokers[0].Metric(t, "maestrohub_uns_broker_subscribe_index_wait_timeouts_total") - before; late < 1 {
		t.Errorf("counted %v late SUBACKs", late)
	}
}
