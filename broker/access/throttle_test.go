package access

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// throttled is how long a sign-in has to wait, 0 if it was looked at.
func throttled(t *testing.T, a *Access, id, password string, remote netip.Addr) time.Duration {
	t.Helper()
	_, err := a.SignIn(t.Context(), id, []byte(password), remote)
	var e *ThrottledError
	if errors.As(err, &e) {
		if !errors.Is(err, ErrThrottled) || errors.Is(err, ErrRefused) {
			t.Fatalf("throttled with %v", err)
		}
		return e.RetryAfter
	}
	return 0
}

func address(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
}

func TestFailuresBlockAndBlocksDouble(t *testing.T) {
	for _, where := range []netip.Addr{nowhere, address(1), netip.MustParseAddr("2001:db8::1")} {
		synctest.Test(t, func(t *testing.T) {
			a := openAccess(t, Options{})
			secret := add(t, a, Client{ID: "c", Workspace: "w"})
			for block, want := range []time.Duration{30, 60, 120, 240, 480, 900, 900} {
				for i := range 10 {
					if wait := throttled(t, a, "c", "wrong", where); wait != 0 {
						t.Fatalf("block %d, failure %d: throttled for %v", block, i, wait)
					}
				}
				if wait := throttled(t, a, "c", secret, where); wait != want*time.Second {
					t.Fatalf("block %d: the right secret waits %v, want %v", block, wait, want*time.Second)
				}
				for range 50 { // do not prolong it
					throttled(t, a, "c", "wrong", where)
				}
				time.Sleep(want*time.Second - 1)
				if wait := throttled(t, a, "c", secret, where); wait != 1 {
					t.Fatalf("block %d: waits %v at its end, want 1 ns", block, wait)
				}
				time.Sleep(time.Nanosecond)
			}
			if wait := throttled(t, a, "c", secret, where); wait != 0 {
				t.Fatalf("after the last block: throttled for %v", wait)
			}
			a.Close()
		})
	}
}

func TestFailuresAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := openAccess(t, Options{})
		secret := add(t, a, Client{ID: "c", Workspace: "w"})
		fail := func(n int) {
			for range n {
				if wait := throttled(t, a, "c", "wrong", nowhere); wait != 0 {
					t.Fatalf("throttled for %v", wait)
				}
			}
		}
		fail(9)
		time.Sleep(time.Minute) // a window later
		fail(9)
		signIn(t, a, "c", secret) // a success
		fail(10)
		if wait := throttled(t, a, "c", secret, nowhere); wait != 30*time.Second {
			t.Fatalf("first block of %v", wait)
		}
		time.Sleep(30*time.Second + time.Minute) // quiet for a window after the block
		fail(10)
		if wait := throttled(t, a, "c", secret, nowhere); wait != 30*time.Second {
			t.Fatalf("block of %v after a quiet time, want 30 s", wait)
		}
		a.Close()
	})
}

func TestAFloodFromElsewhereDoesNotLockADeviceOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := openAccess(t, Options{})
		secret := add(t, a, Client{ID: "c", Workspace: "w"})
		other := add(t, a, Client{ID: "d", Workspace: "w"})
		// From one address: only that address is blocked.
		for range 10 {
			throttled(t, a, "c", "wrong", address(1))
		}
		if throttled(t, a, "c", secret, address(1)) == 0 {
			t.Fatal("the flooding address is not blocked")
		}
		if wait := throttled(t, a, "c", secret, address(2)); wait != 0 {
			t.Fatalf("the device is blocked for %v by failures from elsewhere", wait)
		}
		// From many: the name is blocked, but not where it has signed in from.
		for i := range 100 {
			throttled(t, a, "c", "wrong", address(1000+i))
		}
		if throttled(t, a, "c", secret, address(3)) == 0 {
			t.Fatal("a name that fails from everywhere is not blocked")
		}
		if wait := throttled(t, a, "c", secret, address(2)); wait != 0 {
			t.Fatalf("the device is blocked for %v where it has signed in before", wait)
		}
		// An address that fails with many names is blocked, but not for a
		// device that has signed in from there.
		if wait := throttled(t, a, "d", other, address(7)); wait != 0 {
			t.Fatal(wait)
		}
		for i := range 10 {
			throttled(t, a, fmt.Sprint("guess", i), "wrong", address(7))
		}
		if throttled(t, a, "e", "x", address(7)) == 0 {
			t.Fatal("an address that guesses names is not blocked")
		}
		if wait := throttled(t, a, "d", other, address(7)); wait != 0 {
			t.Fatalf("a device behind that address is blocked for %v", wait)
		}
		a.Close()
	})
}

func TestUnknownNamesAreThrottledLikeKnownOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := openAccess(t, Options{})
		add(t, a, Client{ID: "c", Workspace: "w"})
		for _, id := range []string{"c", "nobody", "", "a/b\x00"} {
			for range 10 {
				if throttled(t, a, id, "wrong", nowhere) != 0 {
					t.Fatalf("%q is throttled early", id)
				}
			}
			if wait := throttled(t, a, id, "wrong", nowhere); wait != 30*time.Second {
				t.Fatalf("%q waits %v", id, wait)
			}
		}
		a.Close()
	})
}

func TestOutagesAreNotFailures(t *testing.T) {
	f := &faults{Store: openStore(t)}
	a := openOn(t, f, Options{})
	secret := add(t, a, Client{ID: "c", Workspace: "w"})
	f.get = func() error { return errors.New("timed out") }
	for range 50 {
		if throttled(t, a, "c", secret, nowhere) != 0 {
			t.Fatal("an outage throttles")
		}
	}
	f.get = nil
	signIn(t, a, "c", secret)
}

func TestOneIPv6NetworkIsOneAddress(t *testing.T) {
	th := newThrottle(Throttle{})
	for i := range 10 {
		th.failed([16]byte{byte(i)}, netip.MustParseAddr(fmt.Sprintf("2001:db8:0:1::%x", i+1)))
	}
	if th.wait([16]byte{99}, netip.MustParseAddr("2001:db8:0:1:ffff::")) == 0 {
		t.Error("the network is not blocked")
	}
	if th.wait([16]byte{99}, netip.MustParseAddr("2001:db8:0:2::1")) != 0 {
		t.Error("another network is blocked")
	}
	for i := range 10 {
		th.failed([16]byte{byte(i)}, netip.MustParseAddr("::ffff:10.0.0.1"))
	}
	if th.wait([16]byte{99}, address(1)) == 0 {
		t.Error("an IPv4 address in IPv6 form is another address")
	}
}

func TestTheThrottlesMemoryIsBounded(t *testing.T) {
	th := newThrottle(Throttle{})
	for i := range maxTracked + maxTracked/8 {
		name := [16]byte{byte(i), byte(i >> 8), byte(i >> 16)}
		th.failed(name, address(i))
		th.succeeded(name, address(i))
		th.failed(name, nowhere)
	}
	for what, table := range map[string]*table{"pairs": &th.pairs, "names": &th.names, "addresses": &th.addresses, "known": &th.known} {
		if len(table.entries) > maxTracked || table.order.Len() != len(table.entries) {
			t.Errorf("%s: %d entries, %d in order", what, len(table.entries), table.order.Len())
		}
	}
}

func BenchmarkThrottle(b *testing.B) {
	th := newThrottle(Throttle{})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		th.wait([16]byte{byte(i)}, address(i))
		th.succeeded([16]byte{byte(i)}, address(i))
	}
}

func TestBadTokensOfOneCallerHoldNobodyElseOff(t *testing.T) {
	// Bearer tokens come without a user name, and where addresses are unknown there
	// is nothing else to tell callers apart by.
	a := openAccess(t, Options{Throttle: Throttle{Threshold: 3}})
	secret := add(t, a, Client{ID: "press-7", Workspace: "plant"})
	token, err := a.Token(t.Context(), "press-7", secret, "", netip.Addr{})
	fatal(t, err)
	for i := range 50 {
		if _, err := a.SignIn(t.Context(), "", []byte(fmt.Sprintf("ey%d.e30.c2ln", i)), netip.Addr{}); !errors.Is(err, ErrRefused) {
			t.Fatalf("bad token %d: %v, want ErrRefused", i, err)
		}
	}
	if _, err := a.SignIn(t.Context(), "", []byte(token.AccessToken), netip.Addr{}); err != nil {
		t.Fatalf("a good token after others' bad ones: %v", err)
	}
}
