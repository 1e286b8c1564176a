package server

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"testing"

	"maestrohub.io/uns/broker/mqtt"
)

// socketPair returns the two ends of a TCP connection on loopback.
func socketPair(t *testing.T) (server, client *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		nc, err := l.Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- nc
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s := <-accepted
	t.Cleanup(func() { s.Close(); c.Close() })
	return s.(*net.TCPConn), c.(*net.TCPConn)
}

func TestPacketsAreCutFromTheStreamHoweverItIsSplit(t *testing.T) {
	// [MQTT-4.2-1], and packets larger than any buffer the reader starts with.
	for name, raw := range map[string]bool{"waiting for readability": true, "reading into a buffer": false} {
		t.Run(name, func(t *testing.T) {
			server, client := socketPair(t)
			tcp := server
			if !raw {
				tcp = nil
			}
			r := newPacketReader(server, tcp)
			random := rand.New(rand.NewPCG(8, 9))
			var stream []byte
			var want [][]byte
			for i := range 400 {
				size := random.IntN(300)
				if i%50 == 0 {
					size = 300_000
				}
				payload := bytes.Repeat([]byte{byte(i)}, size)
				p := mqtt.Publish{Topic: []byte("t"), Payload: payload}
				want = append(want, payload)
				stream = p.Append(stream, mqtt.V311)
			}
			go func() {
				for rest := stream; len(rest) > 0; {
					n := min(len(rest), 1+random.IntN(1+random.IntN(5000)))
					if _, err := client.Write(rest[:n]); err != nil {
						return
					}
					rest = rest[n:]
				}
				_ = client.CloseWrite()
			}()
			got := 0
			for {
				h, body, ok, err := r.next(1 << 20)
				if err != nil {
					t.Fatal(err)
				}
				if ok {
					var p mqtt.Publish
					if err := p.Decode(mqtt.V311, h, body); err != nil {
						t.Fatal(err)
					}
					if !bytes.Equal(p.Payload, want[got]) {
						t.Fatalf("packet %d has another payload", got)
					}
					got++
					continue
				}
				if err := r.fill(); err != nil {
					if !errors.Is(err, io.EOF) {
						t.Fatal(err)
					}
					break
				}
			}
			if got != len(want) {
				t.Fatalf("%d packets, want %d", got, len(want))
			}
		})
	}
}

func TestAnIdleConnectionHoldsNoBuffer(t *testing.T) {
	server, client := socketPair(t)
	r := newPacketReader(server, server)
	if _, err := client.Write(mqtt.AppendPingreq(nil)); err != nil {
		t.Fatal(err)
	}
	if err := r.fill(); err != nil {
		t.Fatal(err)
	}
	if _, _, ok, err := r.next(100); !ok || err != nil {
		t.Fatalf("packet %v, error %v", ok, err)
	}
	filled := make(chan error)
	go func() { filled <- r.fill() }()
	_ = client.Close()
	if err := <-filled; !errors.Is(err, io.EOF) {
		t.Fatalf("fill: %v, want EOF", err)
	}
	r.makeRoom()
	if r.buf != nil {
		t.Errorf("a reader with nothing to read holds %d bytes", cap(r.buf))
	}
}

func TestAPacketBeyondTheLimitIsRefusedByItsHeader(t *testing.T) {
	server, client := socketPair(t)
	r := newPacketReader(server, server)
	if _, err := client.Write([]byte{0x30, 0xff, 0xff, 0xff, 0x7f}); err != nil {
		t.Fatal(err)
	}
	for {
		_, _, ok, err := r.next(1000)
		var bad *mqtt.Error
		if errors.As(err, &bad) && bad.Code == mqtt.PacketTooLarge {
			break
		}
		if ok || err != nil {
			t.Fatalf("packet %v, error %v; want %v", ok, err, mqtt.PacketTooLarge)
		}
		if err := r.fill(); err != nil {
			t.Fatal(err)
		}
	}
	if cap(r.buf) > smallBuffer {
		t.Errorf("a claimed length reserved %d bytes", cap(r.buf))
	}
}
