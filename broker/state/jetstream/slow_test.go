package jetstream_test

import (
	"context"
	"testing"
	"time"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/jetstream"
	"maestrohub.io/uns/tools/localcluster/natsserver"
)

// With every reply held, the time of a call divided by the hold is the number
// of answers it waited for one after the other.
func TestAWriteWaitsForOneAnswer(t *testing.T) {
	t.Parallel()
	const hold = 300 * time.Millisecond
	site := sharedSite(t)
	account := site.account(t)
	way, err := natsserver.Hold(site.Servers[0])
	if err != nil {
		t.Fatal(err)
	}
	defer way.Close()
	store := site.open(t, account, func(o *jetstream.Options) { o.Servers = []string{way.URL(account)} })
	bucket, err := store.Bucket(t.Context(), state.SessionState)
	if err != nil {
		t.Fatal(err)
	}
	log, err := store.Log(t.Context(), "ws")
	if err != nil {
		t.Fatal(err)
	}
	lease, err := store.Lease(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lease.Put(t.Context(), "uns-0", nil); err != nil { // until it is connected
		if _, err = lease.Create(t.Context(), "uns-0", nil); err != nil {
			t.Fatal(err)
		}
	}
	way.Set(hold)
	var revision, deleted uint64
	ctx := t.Context()
	for _, step := range []struct {
		what string
		want float64
		call func() error
	}{
		{"create", 1, func() (err error) { revision, err = bucket.Create(ctx, "a", nil); return }},
		{"update", 1, func() (err error) { revision, err = bucket.Update(ctx, "a", nil, revision); return }},
		{"get", 1, func() error { _, err := bucket.Get(ctx, "a"); return err }},
		{"put", 1, func() (err error) { revision, err = bucket.Put(ctx, "a", nil); return }},
		{"delete", 1, func() (err error) { deleted, err = bucket.Delete(ctx, "a", revision); return }},
		{"update of a deleted record", 1, func() error { _, err := bucket.Update(ctx, "a", nil, deleted); return err }},
		{"apply", 1, func() error {
			r := bucket.Apply(ctx, []state.Write{{Key: "x"}, {Key: "y", Op: state.OpCreate}})
			return r[1].Err
		}},
		{"append", 1, func() error { _, err := log.Append(ctx, [][]byte{{1}, {2}}); return err }},
		{"read", 1, func() error { _, err := log.Read(ctx, 0, 2, nil); return err }},
		{"list", 1, func() error { _, err := bucket.List(ctx, ""); return err }},
		{"bounds", 2, func() error { _, _, err := log.Bounds(ctx); return err }},
		{"heartbeat", 1, func() error { _, err := lease.Put(ctx, "uns-0", nil); return err }},
		{"probe", 1, func() error { return store.Probe(ctx) }},
	} {
		begin := time.Now()
		if err := step.call(); err != nil {
			t.Errorf("%s: %v", step.what, err)
		}
		if waits := float64(time.Since(begin)) / float64(hold); waits < step.want-0.05 || waits > step.want+0.6 {
			t.Errorf("%s waited for %.2f answers, want %v", step.what, waits, step.want)
		}
	}
}

// A NATS that holds its replies for seconds is slow, not gone: no connection is
// given up, every write lands once, and heartbeats go on in their own time.
func TestASlowServerIsNotTakenForAHungOne(t *testing.T) {
	t.Parallel()
	const hold = 3 * time.Second
	site := sharedSite(t)
	account := site.account(t)
	way, err := natsserver.Hold(site.Servers[1])
	if err != nil {
		t.Fatal(err)
	}
	defer way.Close()
	store := site.open(t, account, func(o *jetstream.Options) { o.Servers = []string{way.URL(account)} })
	bucket, err := store.Bucket(t.Context(), state.SessionState)
	if err != nil {
		t.Fatal(err)
	}
	lease, err := store.Lease(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lease.Create(t.Context(), "uns-0", nil); err != nil {
		t.Fatal(err)
	}
	log, err := store.Log(t.Context(), "ws")
	if err != nil {
		t.Fatal(err)
	}
	way.Set(hold)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	results := make(chan error, 30)
	begin := time.Now()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for i := range 6 {
		sent := time.Now()
		go func() {
			_, err := lease.Put(ctx, "uns-0", []byte{byte(i)})
			if took := time.Since(sent); err == nil && took > hold+time.Second {
				t.Errorf("heartbeat %d landed after %v", i, took)
			}
			results <- err
		}()
		go func() { _, err := bucket.Put(ctx, "a", []byte{byte(i)}); results <- err }()
		go func() { _, err := log.Append(ctx, [][]byte{{byte(i)}}); results <- err }()
		<-tick.C
	}
	for range 18 {
		if err := <-results; err != nil {
			t.Errorf("write while NATS is slow: %v", err)
		}
	}
	way.Set(0)
	entries, err := log.Read(ctx, 0, 100, nil)
	if err != nil || len(entries) != 6 {
		t.Errorf("6 records appended stand there as %d, error %v, after %v", len(entries), err, time.Since(begin))
	}
	if silent := max(store.Silent(), lease.Silent()); silent > hold+3*time.Second {
		t.Errorf("silent for %v", silent)
	}
}
