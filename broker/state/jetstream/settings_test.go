package jetstream_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/jetstream"
)

// config reads the configuration a stream has.
func config(t *testing.T, s *site, account, stream string) map[string]any {
	t.Helper()
	nc, err := nats.Connect(s.URL(account))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	m, err := nc.RequestWithContext(t.Context(), "$JS.API.STREAM.INFO."+stream, nil)
	if err != nil {
		t.Fatal(err)
	}
	var info struct {
		Config map[string]any `json:"config"`
	}
	if err := json.Unmarshal(m.Data, &info); err != nil {
		t.Fatal(err)
	}
	return info.Config
}

func TestAnotherMemberTTLThanTheBucketsIsRefusedNamingBoth(t *testing.T) {
	site := sharedSite(t)
	account := site.account(t)
	if _, err := site.open(t, account, nil).Bucket(t.Context(), state.Members); err != nil {
		t.Fatal(err)
	}
	other := site.open(t, account, func(o *jetstream.Options) { o.MemberTTL = 20 * time.Second })
	_, err := other.Bucket(t.Context(), state.Members)
	if err == nil || !strings.Contains(err.Error(), "20s") || !strings.Contains(err.Error(), "10s") {
		t.Errorf("bucket with another TTL: %v, want an error with both", err)
	}
	if _, err := other.Lease(t.Context()); err == nil {
		t.Error("a lease on a bucket with another TTL was given")
	}
	if err := other.Configure(t.Context()); err == nil || !strings.Contains(err.Error(), "memberTTL is 20s") {
		t.Errorf("configure: %v, want memberTTL refused", err)
	}
	if age := config(t, site, account, "KV_mqtt-members")["max_age"]; age != float64(10*time.Second) {
		t.Errorf("the bucket's TTL is now %v", age)
	}
}

func TestConfigureBringsStreamsToTheOptionsAndKeepsTheRest(t *testing.T) {
	site := sharedSite(t)
	account := site.account(t)
	first := site.open(t, account, func(o *jetstream.Options) { o.Replicas, o.LogMaxBytes, o.LogMaxAge = 1, 1<<20, time.Minute })
	log, err := first.Log(t.Context(), "ws")
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := first.Bucket(t.Context(), state.Routes)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.Append(t.Context(), [][]byte{[]byte("kept")}); err != nil {
		t.Fatal(err)
	}
	if _, err := bucket.Put(t.Context(), "a", []byte("kept")); err != nil {
		t.Fatal(err)
	}
	// An operator's own stream and a note on one of ours.
	nc, err := nats.Connect(site.URL(account))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.AddStream(&nats.StreamConfig{Name: "KV_somebody-elses", Subjects: []string{"else.>"}}); err != nil {
		t.Fatal(err)
	}
	stamps := map[string]string{}
	for _, stream := range []string{"LOG_mqtt-sessions-ws", "KV_mqtt-routes"} {
		stamps[stream] = stampOf(t, site, account, stream)
	}
	second := site.open(t, account, func(o *jetstream.Options) { o.LogMaxBytes, o.LogMaxAge = 2<<20, time.Hour })
	for range 2 {
		if err := second.Configure(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	got := config(t, site, account, "LOG_mqtt-sessions-ws")
	if got["max_bytes"] != float64(2<<20) || got["max_age"] != float64(time.Hour) || got["num_replicas"] != float64(3) {
		t.Errorf("the log's settings are %v", got)
	}
	if got := config(t, site, account, "KV_mqtt-routes"); got["num_replicas"] != float64(3) || got["subject_delete_marker_ttl"] != nil {
		t.Errorf("the bucket's settings are %v", got)
	}
	for stream, stamp := range stamps {
		if got := stampOf(t, site, account, stream); got != stamp || stamp == "" {
			t.Errorf("the stamp of %s was %q and is %q", stream, stamp, got)
		}
	}
	if got := config(t, site, account, "KV_somebody-elses"); got["num_replicas"] != float64(1) {
		t.Errorf("another's stream was changed: %v", got)
	}
	if entries, err := log.Read(t.Context(), 0, 10, nil); err != nil || len(entries) != 1 {
		t.Errorf("the log has %v, error %v", entries, err)
	}
	if r, err := bucket.Get(t.Context(), "a"); err != nil || string(r.Value) != "kept" {
		t.Errorf("the bucket has %q, error %v", r.Value, err)
	}
}

func TestOptionsOutOfRangeAreAllNamed(t *testing.T) {
	_, err := jetstream.Open(jetstream.Options{Replicas: 2, MemberTTL: time.Second, LogMaxBytes: 5, LogMaxAge: time.Millisecond})
	for _, want := range []string{"servers", "replica:", "replicas (2)", "memberTTL (1s)", "logMaxBytes (5)", "logMaxAge (1ms)"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

func TestWhatNATSWouldNotTakeIsRefusedBeforeItIsSent(t *testing.T) {
	site := sharedSite(t)
	store := site.open(t, site.account(t), nil)
	bucket, err := store.Bucket(t.Context(), state.Routes)
	if err != nil {
		t.Fatal(err)
	}
	log, err := store.Log(t.Context(), "ws")
	if err != nil {
		t.Fatal(err)
	}
	if store.MaxPayload() != 1<<20 {
		t.Fatalf("max payload is %d", store.MaxPayload())
	}
	large := make([]byte, 1<<20)
	if _, err := bucket.Put(t.Context(), "a", large); !errors.Is(err, state.ErrQuota) || !strings.Contains(err.Error(), "1048576") {
		t.Errorf("put: %v", err)
	}
	if _, err := log.Append(t.Context(), [][]byte{large}); !errors.Is(err, state.ErrQuota) {
		t.Errorf("append: %v", err)
	}
	// Several that fit one by one are one batch all the same.
	fits := make([]byte, 700<<10)
	first, err := log.Append(t.Context(), [][]byte{fits, fits, []byte("x"), fits})
	if err != nil {
		t.Fatal(err)
	}
	entries, err := log.Read(t.Context(), first+1, 3, nil)
	if err != nil || len(entries) != 3 || entries[0].Sequence != first+1 || entries[2].Sequence != first+3 || string(entries[1].Data) != "x" {
		t.Errorf("%d entries read, error %v", len(entries), err)
	}
	if low, high, err := log.Bounds(t.Context()); err != nil || low != first || high != first+3 {
		t.Errorf("bounds %d, %d, error %v, want %d, %d", low, high, err, first, first+3)
	}
}

func TestAStoreWithoutServersGivesUpWithTheContext(t *testing.T) {
	store, err := jetstream.Open(jetstream.Options{Servers: []string{"nats://127.0.0.1:1"}, Replica: "uns-0"})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	ctx, cancel := contextFor(t, 50*time.Millisecond)
	defer cancel()
	if _, err := store.Bucket(ctx, state.Routes); !errors.Is(err, state.ErrUnavailable) {
		t.Errorf("bucket: %v, want ErrUnavailable", err)
	}
	if store.Connected() {
		t.Error("connected to nothing")
	}
}

func TestALogThatCannotBeReservedIsAQuota(t *testing.T) {
	site := sharedSite(t)
	account := site.account(t)
	large := site.open(t, account, func(o *jetstream.Options) { o.LogMaxBytes = 1 << 40 })
	if _, err := large.Log(t.Context(), "ws"); !errors.Is(err, state.ErrQuota) {
		t.Errorf("log of 1 TiB: %v, want ErrQuota", err)
	}
	if _, err := site.open(t, account, nil).Log(t.Context(), "ws"); err != nil {
		t.Errorf("log without a bound after it: %v", err)
	}
}
