package listener

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

const anyPort = "127.0.0.1:0"

func TestAPlainConnectionIsItsSocket(t *testing.T) {
	b := start(t, Options{TCP: anyPort, TrustClientAddresses: true})
	nc := dial(t, b.addr(TCP))
	c := b.next(t)
	if c.Transport != TCP || c.TCP() == nil || c.Remote != netip.MustParseAddr("127.0.0.1") || c.PeerCertificate != nil || c.Proxied() {
		t.Errorf("handed over %+v", c)
	}
	echo(t, nc, "hello")
}

func TestAnAddressIsNotTheDevicesUnlessTrusted(t *testing.T) {
	b := start(t, Options{TCP: anyPort})
	dial(t, b.addr(TCP))
	if c := b.next(t); c.Remote.IsValid() {
		t.Errorf("Remote is %v", c.Remote)
	}
}

func TestTheNewestPendingConnectionIsRefused(t *testing.T) {
	var pending atomic.Int64
	b := start(t, Options{TCP: anyPort, MaxPending: 2, Pending: func(n int) { pending.Store(int64(n)) }})
	first, second := dial(t, b.addr(TCP)), dial(t, b.addr(TCP))
	a, c := b.next(t), b.next(t)
	ended(t, dial(t, b.addr(TCP)))
	if n := b.refused(MaxPending); n != 1 {
		t.Errorf("%d refused", n)
	}
	echo(t, first, "still there")
	echo(t, second, "so am I")

	a.Established() // the CONNACK is sent: its place is free, once
	a.Established()
	third := dial(t, b.addr(TCP))
	b.next(t)
	echo(t, third, "welcome")
	ended(t, dial(t, b.addr(TCP)))
	if n := b.refused(MaxPending); n != 2 {
		t.Errorf("%d refused", n)
	}

	_ = a.Close() // held no place any more
	ended(t, dial(t, b.addr(TCP)))
	_ = c.Close() // held one
	echo(t, dial(t, b.addr(TCP)), "after a close")
	eventually(t, "two places taken", func() bool { return pending.Load() == 2 })
}

func TestOneAddressHoldsNoMoreThanItsShare(t *testing.T) {
	b := start(t, Options{TCP: anyPort, TrustClientAddresses: true, MaxPerSource: 1})
	held := dial(t, b.addr(TCP))
	c := b.next(t)
	c.Established() // counts for its whole life, not until the CONNACK
	ended(t, dial(t, b.addr(TCP)))
	if n := b.refused(MaxPerSource); n != 1 {
		t.Errorf("%d refused", n)
	}
	_ = held.Close()
	ended(t, held)
	eventually(t, "the place is free again", func() bool {
		b.sources.mu.Lock()
		defer b.sources.mu.Unlock()
		return len(b.sources.held) == 0
	})
	echo(t, dial(t, b.addr(TCP)), "my turn")
}

func TestAddressesAreNotCountedUnlessTrusted(t *testing.T) {
	b := start(t, Options{TCP: anyPort, MaxPerSource: 1})
	for range 3 {
		echo(t, dial(t, b.addr(TCP)), "hello")
	}
}

func TestASourceIsAnIPv4AddressOrAnIPv6Network(t *testing.T) {
	s := &sources{limit: 2}
	take := func(a string, want bool) {
		t.Helper()
		if got := s.take(netip.MustParseAddr(a)); got != want {
			t.Errorf("take %s: %t", a, got)
		}
	}
	take("2001:db8::1", true)
	take("2001:db8::ffff:2", true)
	take("2001:db8::3", false)
	take("2001:db8:0:1::3", true)
	take("192.0.2.1", true)
	take("::ffff:192.0.2.1", true)
	take("192.0.2.1", false)
	take("192.0.2.2", true)
	take("fe80::1%eth0", true)
	take("fe80::1%eth1", true)
	take("fe80::2", false)
	s.free(netip.MustParseAddr("2001:db8::9"))
	take("2001:db8::4", true)
}

func TestASlowConnectionEndsAtConnectTimeout(t *testing.T) {
	ca := newAuthority(t, "ca")
	b := start(t, Options{
		TCP: anyPort, TLS: anyPort, WebSocket: anyPort, Certificates: certificates(t, ca, t.TempDir(), "broker", CertificateOptions{}),
		ConnectTimeout: 300 * time.Millisecond, MaxPending: 2,
	})
	for _, transport := range []string{TCP, TLS, WSS} {
		begun := time.Now()
		nc := dial(t, b.addr(transport))
		if _, err := nc.Write([]byte{0x16}); err != nil { // the first byte of a handshake that never goes on; of no MQTT packet we wait for
			t.Fatal(err)
		}
		if transport == TCP {
			_, _ = io.ReadFull(nc, make([]byte, 1))
		}
		ended(t, nc)
		if took := time.Since(begun); took < 250*time.Millisecond || took > 5*time.Second {
			t.Errorf("%s: ended after %v", transport, took)
		}
	}
	if n := b.refused(ConnectTimeout); n != 2 {
		t.Errorf("%d refused for the timeout, want the TLS and the WSS one", n)
	}
	eventually(t, "no place taken", func() bool { return b.places.taken.Load() == 0 })
}

func TestSlowHandshakesHoldUpNobodyElse(t *testing.T) {
	ca := newAuthority(t, "ca")
	b := start(t, Options{TLS: anyPort, Certificates: certificates(t, ca, t.TempDir(), "broker", CertificateOptions{}), MaxPending: 60})
	for range 50 {
		dial(t, b.addr(TLS))
	}
	secure := dialTLS(t, b, TLS, ca, nil)
	echo(t, secure, "quick")
}

func TestStopLeavesConnectionsAndCloseEndsThoseNotHandedOver(t *testing.T) {
	ca := newAuthority(t, "ca")
	b := start(t, Options{TCP: anyPort, TLS: anyPort, Certificates: certificates(t, ca, t.TempDir(), "broker", CertificateOptions{})})
	served, address := dial(t, b.addr(TCP)), b.addr(TCP)
	b.next(t)
	handshaking := dial(t, b.addr(TLS))
	eventually(t, "both are pending", func() bool { return b.places.taken.Load() == 2 })
	b.Stop()
	if nc, err := net.Dial("tcp", address); err == nil {
		_ = nc.Close()
		t.Error("still accepts")
	}
	echo(t, served, "served on")
	b.Close()
	ended(t, handshaking)
	echo(t, served, "served still")
	b.Stop()
	b.Close()
}

func TestNewNamesTheAddressItCannotHave(t *testing.T) {
	b := start(t, Options{TCP: anyPort})
	taken := b.addr(TCP)
	_, err := New(Options{TCP: anyPort, WebSocket: taken}, func(*Conn) {})
	if err == nil || !strings.Contains(err.Error(), taken) || !strings.Contains(err.Error(), "over ws") {
		t.Errorf("error %v", err)
	}
}

// failing is a net.Listener that runs out of file descriptors for a while.
type failing struct {
	net.Listener
	left atomic.Int64
}

func (f *failing) Accept() (net.Conn, error) {
	if f.left.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return f.Listener.Accept()
}

type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func TestAcceptSurvivesRunningOutOfFileDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines strings.Builder
		accepted := make(chan *Conn, 1)
		l, err := New(Options{MaxPending: 1, ConnectTimeout: time.Minute, Log: slog.New(slog.NewTextHandler(&lines, nil))}, func(c *Conn) { accepted <- c })
		if err != nil {
			t.Fatal(err)
		}
		p := &pipes{make(chan net.Conn, 1), make(chan struct{})}
		f := &failing{Listener: p}
		f.left.Store(12)
		device, ours := net.Pipe()
		p.conns <- ours
		begun := time.Now()
		l.accepting.Go(func() { l.accept(opened{f, TCP}) })
		c := <-accepted
		if took := time.Since(begun); took < time.Second || took > 10*time.Second {
			t.Errorf("12 failures took %v", took)
		}
		if n := strings.Count(lines.String(), "embedded broker: cannot accept"); n != 1 {
			t.Errorf("%d lines:\n%s", n, lines.String())
		}
		_, _ = c.Close(), device.Close()
		_ = f.Close()
		l.Close()
	})
}

func TestCloseIsIdempotentForTheCounts(t *testing.T) {
	b := start(t, Options{TCP: anyPort, TrustClientAddresses: true})
	dial(t, b.addr(TCP))
	c := b.next(t)
	_ = c.Close()
	if err := c.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("second close: %v", err)
	}
	if n := b.places.taken.Load(); n != 0 {
		t.Errorf("%d places taken", n)
	}
}
