package access

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/memory"
)

// nowhere is the address of a device whose address is not known.
var nowhere netip.Addr

func openStore(t testing.TB) *memory.Store {
	t.Helper()
	s, err := memory.Open(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func openOn(t testing.TB, store state.Store, options Options) *Access {
	t.Helper()
	a, err := Open(context.Background(), store, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

func openAccess(t testing.TB, options Options) *Access {
	t.Helper()
	return openOn(t, openStore(t), options)
}

// add adds a client with a generated secret, which it returns.
func add(t testing.TB, a *Access, c Client) string {
	t.Helper()
	secret, err := a.Add(context.Background(), c, "")
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

func signIn(t testing.TB, a *Access, id, password string) *Grants {
	t.Helper()
	g, err := a.SignIn(context.Background(), id, []byte(password), nowhere)
	if err != nil {
		t.Fatalf("sign-in of %q: %v", id, err)
	}
	return g
}

func refused(t testing.TB, a *Access, id, password, why string) {
	t.Helper()
	g, err := a.SignIn(context.Background(), id, []byte(password), nowhere)
	if g != nil || !errors.Is(err, ErrRefused) {
		t.Fatalf("sign-in of %q, %s: grants %v, error %v, want ErrRefused", id, why, g, err)
	}
	if err.Error() != ErrRefused.Error() {
		t.Fatalf("sign-in of %q, %s: the error %q says why", id, why, err)
	}
}

// recheck renews grants by what the store has now.
func recheck(a *Access, g *Grants) (*Grants, error) {
	s, err := a.Standing(context.Background(), g.ClientID())
	if err != nil {
		return nil, err
	}
	return s.Renew(g)
}

func fatal(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// faults is a store whose writes can be made to go wrong.
type faults struct {
	state.Store
	write func(do func() (uint64, error)) (uint64, error)
	get   func() error
	got   func(r state.Record, err error) (state.Record, error)
}

func (f *faults) Bucket(ctx context.Context, name string) (state.Bucket, error) {
	b, err := f.Store.Bucket(ctx, name)
	return &faultyBucket{b, f}, err
}

type faultyBucket struct {
	state.Bucket
	faults *faults
}

func (b *faultyBucket) Get(ctx context.Context, key string) (state.Record, error) {
	if b.faults.get != nil {
		if err := b.faults.get(); err != nil {
			return state.Record{}, err
		}
	}
	r, err := b.Bucket.Get(ctx, key)
	if b.faults.got != nil {
		return b.faults.got(r, err)
	}
	return r, err
}

func (b *faultyBucket) wrap(do func() (uint64, error)) (uint64, error) {
	if b.faults.write == nil {
		return do()
	}
	return b.faults.write(do)
}

func (b *faultyBucket) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	return b.wrap(func() (uint64, error) { return b.Bucket.Create(ctx, key, value) })
}

func (b *faultyBucket) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	return b.wrap(func() (uint64, error) { return b.Bucket.Update(ctx, key, value, revision) })
}

func (b *faultyBucket) Delete(ctx context.Context, key string, revision uint64) (uint64, error) {
	return b.wrap(func() (uint64, error) { return b.Bucket.Delete(ctx, key, revision) })
}
