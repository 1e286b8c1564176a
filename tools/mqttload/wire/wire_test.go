package wire

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"maestrohub.io/uns/broker/mqtt"
)

// peer is a loop with one connection to a listener of the test.
type peer struct {
	t      *testing.T
	loop   *Loop
	conn   *Conn
	server net.Conn

	up      bool
	packets [][]byte // type byte and body
	down    bool
	err     error
}

func (p *peer) Up(*Conn) { p.up = true }

func (p *peer) Packet(_ *Conn, h mqtt.Header, body []byte) {
	p.packets = append(p.packets, append([]byte{byte(h.Type)<<4 | h.Flags}, body...))
}

func (p *peer) Down(_ *Conn, err error) { p.down, p.err = true, err }

// until turns the loop until the condition holds.
func (p *peer) until(what string, condition func() bool) {
	p.t.Helper()
	for end := p.loop.Clock() + int64(20*time.Second); !condition(); {
		if p.loop.Clock() > end {
			p.t.Fatalf("waited 20s for %s", what)
		}
		if err := p.loop.Turn(p.loop.Clock() + int64(10*time.Millisecond)); err != nil {
			p.t.Fatal(err)
		}
	}
}

func newPeer(t *testing.T) *peer {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	loop, err := NewLoop()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(loop.Close)
	p := &peer{t: t, loop: loop}
	if p.conn, err = loop.Dial(netip.MustParseAddrPort(l.Addr().String()), p); err != nil {
		t.Fatal(err)
	}
	if p.server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.server.Close() })
	p.until("the connection", func() bool { return p.up })
	return p
}

func TestPacketsComeWholeHoweverTheyWereSplit(t *testing.T) {
	small := mqtt.AppendAck(nil, mqtt.V311, mqtt.PUBACK, 7, 0)
	large := (&mqtt.Publish{Topic: []byte("t"), Payload: bytes.Repeat([]byte("x"), 1000)}).Append(nil, mqtt.V311)
	stream := append(append(append([]byte(nil), small...), large...), small...)
	for _, step := range []int{1, 2, 3, 7, 500, len(stream)} {
		p := newPeer(t)
		for at := 0; at < len(stream); at += step {
			if _, err := p.server.Write(stream[at:min(at+step, len(stream))]); err != nil {
				t.Fatal(err)
			}
			if err := p.loop.Turn(0); err != nil {
				t.Fatal(err)
			}
		}
		p.until("three packets", func() bool { return len(p.packets) == 3 })
		for i, want := range [][]byte{small, large, small} {
			h, _, _ := mqtt.ParseHeader(want)
			if got := p.packets[i]; got[0] != want[0] || !bytes.Equal(got[1:], want[h.Size:]) {
				t.Errorf("in steps of %d: packet %d is % x…, want % x…", step, i, got[:3], want[:3])
			}
		}
	}
}

func TestWhatASlowReaderDoesNotTakeIsKept(t *testing.T) {
	p := newPeer(t)
	sent := bytes.Repeat([]byte("0123456789"), 1<<20)
	p.conn.Queue(append(p.conn.Buffer(), sent...))
	if err := p.loop.Turn(0); err != nil {
		t.Fatal(err)
	}
	if p.conn.Queued() == 0 {
		t.Fatal("ten megabytes fit into the socket: the test shows nothing")
	}
	received := make(chan []byte)
	go func() {
		got, _ := io.ReadAll(p.server)
		received <- got
	}()
	p.until("the queue to empty", func() bool { return p.conn.Queued() == 0 })
	p.conn.Finish()
	if got := <-received; !bytes.Equal(got, sent) {
		t.Errorf("received %d bytes, want the %d sent", len(got), len(sent))
	}
}

func TestTheEndOfAConnectionIsToldOnce(t *testing.T) {
	p := newPeer(t)
	p.server.Close()
	p.until("the end", func() bool { return p.down })
	if !errors.Is(p.err, io.EOF) || p.loop.Len() != 0 {
		t.Errorf("error %v with %d connections left, want EOF and none", p.err, p.loop.Len())
	}
	p.conn.Queue([]byte("x")) // no effect
	if err := p.loop.Turn(0); err != nil {
		t.Fatal(err)
	}
}

func TestARefusedConnectionIsTold(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := netip.MustParseAddrPort(l.Addr().String())
	l.Close()
	loop, err := NewLoop()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(loop.Close)
	p := &peer{t: t, loop: loop}
	if _, err := loop.Dial(address, p); err != nil {
		t.Fatal(err)
	}
	p.until("the refusal", func() bool { return p.down })
	if !errors.Is(p.err, unix.ECONNREFUSED) {
		t.Errorf("error %v, want connection refused", p.err)
	}
}

func TestATurnEndsAtItsInstant(t *testing.T) {
	loop, err := NewLoop()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(loop.Close)
	for _, wait := range []time.Duration{0, 100 * time.Microsecond, 5 * time.Millisecond} {
		until := loop.Clock() + int64(wait)
		if err := loop.Turn(until); err != nil {
			t.Fatal(err)
		}
		if loop.Now < until {
			t.Errorf("a turn of %s ended %s early", wait, time.Duration(until-loop.Now))
		}
	}
}
