package listener

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"maestrohub.io/uns/broker/mqtt"
)

// counted counts the writes that reach a socket.
type counted struct {
	net.Conn
	writes atomic.Int64
}

func (c *counted) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// pair is a WebSocket with the stream that is its other end, over TLS with certificates of ca.
func pair(t *testing.T, ca *authority) (*websocket.Conn, net.Conn, *counted) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	url, d := "ws://"+l.Addr().String()+"/mqtt", websocket.Dialer{Subprotocols: []string{"mqtt"}}
	var certs *Certificates
	if ca != nil {
		certs = certificates(t, ca, t.TempDir(), "broker", CertificateOptions{})
		url, d.TLSClientConfig = "wss"+url[2:], &tls.Config{RootCAs: ca.pool(), ServerName: "localhost"}
	}
	type side struct {
		stream  net.Conn
		counter *counted
		err     error
	}
	server := make(chan side, 1)
	go func() {
		nc, err := l.Accept()
		s := side{counter: &counted{Conn: nc}, err: err}
		if nc = s.counter; err == nil && certs != nil {
			nc, s.err = certs.handshake(nc)
		}
		if s.err == nil {
			s.stream, s.err = newUpgrader("/mqtt", nil).handshake(nc)
		}
		server <- s
	}()
	ws, _, err := d.Dial(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.Close() })
	_ = ws.SetReadDeadline(time.Now().Add(10 * time.Second))
	s := <-server
	if s.err != nil {
		t.Fatal(s.err)
	}
	t.Cleanup(func() { _ = s.stream.Close() })
	return ws, s.stream, s.counter
}

// publish is a PUBLISH with a payload of n bytes.
func publish(n int) []byte {
	p := mqtt.Publish{Topic: []byte("t"), Payload: bytes.Repeat([]byte{'x'}, n)}
	return p.Append(nil, mqtt.V311)
}

// messages expects one binary message for each of want.
func messages(t *testing.T, ws *websocket.Conn, want ...[]byte) {
	t.Helper()
	for i, w := range want {
		kind, got, err := ws.ReadMessage()
		if err != nil || kind != websocket.BinaryMessage {
			t.Fatalf("message %d: kind %d, %v", i, kind, err)
		}
		if !bytes.Equal(got, w) {
			t.Fatalf("message %d has %d bytes, begins %x; want %d bytes, begins %x", i, len(got), got[:min(len(got), 8)], len(w), w[:min(len(w), 8)])
		}
	}
}

func TestEachPacketIsAMessageAndEachWriteReachesTheSocketOnce(t *testing.T) {
	ack := mqtt.AppendAck(nil, mqtt.V311, mqtt.PUBACK, 7, mqtt.Success)
	acks := make([][]byte, 15_000) // more headers and packets than a pooled buffer has room for
	for i := range acks {
		acks[i] = ack
	}
	cases := map[string][][]byte{
		"one":                       {ack},
		"several":                   {publish(10), ack, mqtt.AppendPingresp(nil), publish(0)},
		"every length of header":    {publish(120), publish(121), publish(122), publish(123), publish(124), publish(200)},
		"the largest small one":     {publish(copied - 10), ack},
		"a part of a packet":        {ack, publish(50)[:20]},
		"a part of a header":        {ack, {0x30}},
		"a length nobody can parse": {ack, {0x30, 0xFF, 0xFF, 0xFF, 0xFF, 0x01, 0x00}},
		"no packet type":            {ack, {0x00, 0x00, 0x40, 0x02}},
		"more than a buffer":        acks,
	}
	for transport, ca := range map[string]*authority{WS: nil, WSS: newAuthority(t, "ca")} {
		ws, s, socket := pair(t, ca)
		for name, packets := range cases {
			t.Run(transport+", "+name, func(t *testing.T) {
				p := bytes.Join(packets, nil)
				before := socket.writes.Load()
				written := make(chan error, 1)
				go func() {
					n, err := s.Write(p)
					if n != len(p) {
						err = errors.Join(err, errors.New("short write"))
					}
					written <- err
				}()
				messages(t, ws, packets...)
				if err := <-written; err != nil {
					t.Fatal(err)
				}
				// A TLS record has at most 16 KiB, and is a write.
				want := int64(1)
				if ca != nil {
					want += int64((len(p) + 4*len(packets)) / (16 << 10))
				}
				if got := socket.writes.Load() - before; ca == nil && got != 1 || len(p) < 10_000 && got != 1 || ca != nil && got > 2*want {
					t.Errorf("%d writes to the socket, want %d", got, want)
				}
			})
		}
	}
}

func TestHugePacketsAreAMessageEachAmongSmallOnes(t *testing.T) {
	small, large, huge := publish(20), publish(copied+1), publish(5<<20)
	for _, ca := range []*authority{nil, newAuthority(t, "ca")} {
		ws, s, _ := pair(t, ca)
		for _, packets := range [][][]byte{{huge}, {small, huge}, {large, small, huge, small, small, large}} {
			written := make(chan error, 1)
			go func() {
				_, err := s.Write(bytes.Join(packets, nil))
				written <- err
			}()
			messages(t, ws, packets...)
			if err := <-written; err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestOneWriteIsOneSegment(t *testing.T) {
	b := start(t, Options{WebSocket: anyPort})
	ws := webSocket(t, b, nil)
	c := b.next(t)
	packets := [][]byte{publish(10), publish(200), publish(3)}
	if _, err := c.Write(bytes.Join(packets, nil)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	n, err := ws.NetConn().Read(buf) // past the WebSocket: what has arrived
	if want := len(bytes.Join(packets, nil)) + 2 + 4 + 2; err != nil || n != want {
		t.Errorf("the first segment has %d bytes, want all %d: %v", n, want, err)
	}
}

func TestWritingTakesNoMemoryOfItsOwn(t *testing.T) {
	p := bytes.Join([][]byte{publish(10), publish(200), publish(copied + 1), publish(3)}, nil)
	frame(p).recycle()
	allocs := testing.AllocsPerRun(1000, func() {
		f := frame(p)
		_, _ = f.WriteTo(nowhere{})
		f.recycle()
	})
	if allocs > 1 { // none, but the race detector makes pools forgetful
		t.Errorf("%v allocations a write", allocs)
	}
}

type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }

func BenchmarkWrite(b *testing.B) {
	p := bytes.Repeat(publish(200), 100)
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		f := frame(p)
		_, _ = f.WriteTo(nowhere{})
		f.recycle()
	}
}
