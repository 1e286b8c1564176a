package jetstream_test

import (
	"sync/atomic"
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

// A replica that was killed gives nothing back. Who knows that it is gone does not wait
// until the lease lapses; who knows nothing of the kind does.
func TestALockIsInheritedFromAHolderThatIsOver(t *testing.T) {
	t.Parallel()
	site := sharedSite(t)
	account := site.account(t)
	const lease = time.Hour
	killed := site.open(t, account, func(o *jetstream.Options) { o.Replica, o.LockLease = "uns-killed", lease })
	if _, err := killed.Lock(state.SweepLock).Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := killed.Close(); err != nil { // which gives no lock back
		t.Fatal(err)
	}
	other := site.open(t, account, func(o *jetstream.Options) { o.LockLease = lease })
	lock := other.Lock(state.SweepLock).(state.Succession)
	var over atomic.Bool
	asked := make(chan string, 1)
	got := make(chan error, 1)
	go func() {
		h, err := lock.Succeed(t.Context(), func(replica string) bool {
			select {
			case asked <- replica:
			default:
			}
			return over.Load()
		})
		if err == nil {
			h.Release()
		}
		got <- err
	}()
	for range 2 {
		select {
		case who := <-asked:
			if who != "uns-killed" {
				t.Fatalf("asked about %q", who)
			}
		case err := <-got:
			t.Fatalf("taken from a holder that is not known to be over: %v", err)
		}
	}
	over.Store(true)
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	// Released, it is free for anybody.
	h, err := lock.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h.Release()
}
