package proxy

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// echo is a server that sends back what it gets; it returns its address.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

func open(t *testing.T) *Proxy {
	t.Helper()
	p, err := Open(echo(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ask sends a byte and waits for it to come back.
func ask(c net.Conn, within time.Duration) error {
	if _, err := c.Write([]byte{7}); err != nil {
		return err
	}
	return await(c, within)
}

func await(c net.Conn, within time.Duration) error {
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

func TestRepliesAreHeldAndNothingElseIs(t *testing.T) {
	p := open(t)
	c := dial(t, p)
	if err := ask(c, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	const hold = 150 * time.Millisecond
	p.Hold(hold)
	began := time.Now()
	if err := ask(c, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < hold {
		t.Errorf("a reply held %v came after %v", hold, took)
	}
	if got := p.State(); got != "held 150ms" {
		t.Errorf("state %q", got)
	}
}

func TestAFrozenWayKeepsWhatIsSentForLater(t *testing.T) {
	p := open(t)
	old := dial(t, p)
	if err := ask(old, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	p.Freeze()
	fresh := dial(t, p)
	for name, c := range map[string]net.Conn{"an open connection": old, "a new one": fresh} {
		if err := ask(c, 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s over a frozen way: %v, want no answer and no end", name, err)
		}
	}
	p.Heal()
	for name, c := range map[string]net.Conn{"an open connection": old, "a new one": fresh} {
		if err := await(c, 10*time.Second); err != nil {
			t.Errorf("%s after the frost: %v", name, err)
		}
	}
}

func TestACutWayEndsConnectionsAndTakesNoneUntilHealed(t *testing.T) {
	p := open(t)
	c := dial(t, p)
	if err := ask(c, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	p.Freeze()
	p.Cut() // of a frozen way, too
	if err := await(c, 10*time.Second); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a cut connection: %v, want its end", err)
	}
	if err := ask(dial(t, p), 10*time.Second); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a new connection over a cut way: %v, want its end", err)
	}
	p.Heal()
	if err := ask(dial(t, p), 10*time.Second); err != nil {
		t.Errorf("after healing: %v", err)
	}
}

func TestAStrandedConnectionNeverComesBackAndNewOnesAreWhole(t *testing.T) {
	p := open(t)
	old := dial(t, p)
	if err := ask(old, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	p.Strand()
	for range 2 {
		if err := ask(old, 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("over a stranded connection: %v, want no answer and no end", err)
		}
		if err := ask(dial(t, p), 10*time.Second); err != nil {
			t.Errorf("over a new one: %v", err)
		}
		p.Heal()
	}
	p.Cut()
	if err := await(old, 10*time.Second); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a stranded connection over a cut way: %v, want its end", err)
	}
}

func TestALaneIsHarmedAlone(t *testing.T) {
	names := make(chan string, 1)
	p, err := OpenLanes(echo(t), func(net.Conn) string { return <-names })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	open := func(name string) net.Conn {
		names <- name
		return dial(t, p)
	}
	a, b := open("a"), open("b")
	for _, c := range []net.Conn{a, b} {
		if err := ask(c, 10*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	p.Of("a").Cut()
	if err := await(a, 10*time.Second); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection of the cut lane: %v, want its end", err)
	}
	if err := ask(b, 10*time.Second); err != nil {
		t.Errorf("a connection of another lane: %v", err)
	}
	if a, b := p.Of("a").State(), p.Of("b").State(); a != "cut" || b != "whole" {
		t.Errorf("states %q and %q", a, b)
	}
	if err := ask(open(""), 10*time.Second); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection of nobody: %v, want its end", err)
	}
	p.Of("a").Heal()
	if err := ask(open("a"), 10*time.Second); err != nil {
		t.Errorf("after healing: %v", err)
	}
}
