package jetstream_test

import (
	"testing"
	"time"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/jetstream"
	"maestrohub.io/uns/tools/localcluster/natsserver"
)

func TestALockWhoseHolderIsCutOffIsTakenOverAfterItLetGo(t *testing.T) {
	t.Parallel()
	const lease = 1500 * time.Millisecond
	site := sharedSite(t)
	account := site.account(t)
	way, err := natsserver.Hold(site.Servers[0])
	if err != nil {
		t.Fatal(err)
	}
	defer way.Close()
	cut := site.open(t, account, func(o *jetstream.Options) { o.Servers, o.LockLease = []string{way.URL(account)}, lease })
	other := site.open(t, account, func(o *jetstream.Options) { o.LockLease = lease })
	held, err := cut.Lock(state.SweepLock).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	type taken struct {
		held state.Held
		err  error
	}
	got := make(chan taken, 1)
	go func() {
		h, err := other.Lock(state.SweepLock).Acquire(t.Context())
		got <- taken{h, err}
	}()
	// It is renewed: longer than the lease nobody else has it.
	select {
	case <-got:
		t.Fatal("taken over from a holder that lives")
	case <-held.Lost():
		t.Fatal("lost by a holder that lives")
	case <-time.After(2 * lease):
	}
	way.Close()
	at := time.Now()
	select {
	case <-held.Lost():
	case <-got:
		t.Fatal("taken over before the holder let go")
	}
	let := time.Since(at)
	g := <-got
	if g.err != nil {
		t.Fatal(g.err)
	}
	t.Logf("let go after %v, taken over after %v, of a lease of %v", let, time.Since(at), lease)
	select {
	case <-g.held.Lost():
		t.Error("lost at once")
	default:
	}
	g.held.Release()
}
