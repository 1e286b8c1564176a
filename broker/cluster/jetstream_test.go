package cluster

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/jetstream"
	"maestrohub.io/uns/tools/localcluster/natsserver"
)

// The same on three real NATS servers, at T = 5 s: a member is killed and judged
// gone, its successor is served at once, a deleted entry fences.
func TestMembershipOnRealNATSServers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 15 s")
	}
	servers, err := natsserver.Start(natsserver.Options{Dir: t.TempDir(), Accounts: []string{"A"}})
	if err != nil {
		t.Fatal(err)
	}
	defer servers.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := servers.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	const ttl = 5 * time.Second
	type real struct {
		*replica
		store *jetstream.Store
	}
	start := func(name string) real {
		store, err := jetstream.Open(jetstream.Options{Servers: servers.URLs("A"), Replica: name, MemberTTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		lease, err := store.Lease(ctx)
		if err != nil {
			t.Fatal(err)
		}
		r := real{&replica{t: t}, store}
		r.Member, err = Start(ctx, Options{Replica: name, TTL: ttl, ConnectBudget: budget, Store: store, Lease: lease, Silent: store.Silent,
			On: func(e Event) {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.events, r.times = append(r.events, e), append(r.times, time.Now())
			}})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a, b := start("uns-0"), start("uns-1")
	a.serves(20 * time.Second)
	i := b.serves(20 * time.Second).Incarnation()
	index, err := a.store.Bucket(ctx, state.SessionState)
	if err != nil {
		t.Fatal(err)
	}
	fresh := Probe(index, "uns-0")
	fresh.Begin()
	var work sync.WaitGroup
	probing, end := context.WithCancel(ctx)
	work.Go(func() { fresh.Run(probing) })
	work.Go(func() { indexed(probing, t, index, fresh, func() bool { return false }) })
	if err := a.Complete(ctx); err != nil || len(a.Members()) != 2 {
		t.Fatalf("members %v, %v", a.Members(), err)
	}
	b.cancel()
	b.work.Wait()
	b.store.Close()
	bucket, err := a.store.Bucket(ctx, state.Members)
	if err != nil {
		t.Fatal(err)
	}
	last, err := bucket.Get(ctx, "uns-1")
	if err != nil {
		t.Fatal(err)
	}
	how, at := a.ended(10*time.Second, i)
	// Half a second for a machine that runs other tests beside this one.
	if took := at.Sub(last.Time); how != EndedGone || took < ttl*15/10 || took > ttl*17/10+500*time.Millisecond {
		t.Errorf("%v %v after NATS took its last write", how, took)
	} else {
		t.Logf("gone %v after NATS took its last write, T = %v", took, ttl)
	}
	if !fresh.Fresh(time.Now()) {
		t.Errorf("the index is not fresh: %v", fresh)
	}
	b = start("uns-1")
	b.serves(5 * time.Second)
	for deleted := false; !deleted; {
		r, err := bucket.Get(ctx, "uns-0")
		if err != nil {
			t.Fatal(err)
		}
		_, err = bucket.Delete(ctx, "uns-0", r.Revision)
		deleted = err == nil // else a heartbeat came between
	}
	a.fenced(2*time.Second, EntryGone)
	a.serves(5 * time.Second)
	end()
	work.Wait()
	for _, r := range []real{a, b} {
		if err := r.Stop(ctx); err != nil && !strings.Contains(err.Error(), "unknown") {
			t.Error(err)
		}
		r.store.Close()
	}
}
