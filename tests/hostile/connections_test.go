package hostile_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
)

// TestAFloodOfSilentConnections: connections that never say a word are closed when
// connectTimeout is over, those beyond maxPendingConnections at once, and then
// there is room for others again.
func TestAFloodOfSilentConnections(t *testing.T) {
	r := start(t)
	var flood []net.Conn
	for range 1000 {
		flood = append(flood, dial(t, r.TCP))
	}
	closedAll(t, flood, "a connection that sends nothing")
	r.Client(t, healthy, "after-the-flood").ExpectNothing()
}

// TestHalfOpenConnects: a CONNECT that stops in its middle holds a place no longer
// than connectTimeout, wherever it stops.
func TestHalfOpenConnects(t *testing.T) {
	r := start(t)
	connect := r.ConnectAs(attacker, "half")
	packet := connect.Append(nil, mqtt.V5)
	var halves []net.Conn
	for n := 1; n < len(packet); n++ {
		c := dial(t, r.TCP)
		if _, err := c.Write(packet[:n]); err != nil {
			continue // one too many pending, closed at once
		}
		halves = append(halves, c)
	}
	closedAll(t, halves, "half a CONNECT")
	r.Client(t, healthy, "after-the-halves").ExpectNothing()
}

// TestAClientThatReadsNothing: one that goes on asking and takes no answer is not read
// any more, and does not keep its place by that.
func TestAClientThatReadsNothing(t *testing.T) {
	r := start(t)
	c := dial(t, r.TCP)
	connect := r.ConnectAs(attacker, "deaf")
	connect.KeepAlive = 1
	if _, err := c.Write(connect.Append(nil, mqtt.V5)); err != nil {
		t.Fatal(err)
	}
	// Little room on the way, so that it is full soon.
	if tcp, is := c.(*net.TCPConn); !is || tcp.SetReadBuffer(4<<10) != nil || tcp.SetWriteBuffer(4<<10) != nil {
		t.Fatal("the buffers of the socket cannot be set")
	}
	pings := bytes.Repeat(mqtt.AppendPingreq(nil), 4<<10)
	for {
		if err := c.SetWriteDeadline(time.Now().Add(harness.Patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(pings); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("a client that reads nothing is connected %s after it was last read, with a keep alive of 1 s", harness.Patience)
		} else if err != nil {
			break // closed: as it should be
		}
	}
	r.Client(t, healthy, "after-the-deaf").ExpectNothing()
}

// TestSlowloris: a CONNECT that comes byte by byte, always another one before the
// last is forgotten, is not waited for longer than connectTimeout in all.
func TestSlowloris(t *testing.T) {
	r := start(t)
	connect := r.ConnectAs(attacker, "slow")
	packet := connect.Append(nil, mqtt.V5)
	var drips sync.WaitGroup
	for range 50 {
		c := dial(t, r.TCP)
		drips.Go(func() {
			tick := time.NewTicker(200 * time.Millisecond)
			defer tick.Stop()
			began := time.Now()
			for i := 0; ; i++ {
				if _, err := c.Write(packet[i%len(packet) : i%len(packet)+1]); err != nil {
					return // closed: as it should be
				}
				if time.Since(began) > harness.Patience {
					t.Errorf("a CONNECT of a byte every 200 ms is waited for after %s", harness.Patience)
					return
				}
				<-tick.C
			}
		})
	}
	drips.Wait()
	r.Client(t, healthy, "after-the-drips").ExpectNothing()
}

// TestAStormOfReconnects: one client id connecting over and over takes over from
// itself each time.
func TestAStormOfReconnects(t *testing.T) {
	r := start(t)
	for range 300 {
		c := r.Client(t, attacker, "restless")
		c.Close()
	}
	r.Client(t, attacker, "restless").ExpectNothing()
}

// TestAFloodOfSignIns: a credential that opens more connections than it may is
// refused the rest, and others are not.
func TestAFloodOfSignIns(t *testing.T) {
	r := start(t)
	refused := 0
	for i := range 200 {
		c := r.Dial(t)
		if ack := c.TryConnect(r.ConnectAs(attacker, fmt.Sprintf("many-%d", i))); ack.Code != mqtt.Success {
			refused++
		}
	}
	if refused != 50 {
		t.Errorf("%d of 200 connections were refused, want 50: maxConnectionsPerCredential is 150", refused)
	}
	r.Client(t, healthy, "not-concerned").ExpectNothing()
}

// TestGuessedPasswords: wrong secrets are refused with a code that does not say
// what was wrong.
func TestGuessedPasswords(t *testing.T) {
	r := start(t)
	for _, user := range []string{healthy, "nobody"} {
		for range 50 {
			c := r.Dial(t)
			connect := r.ConnectAs(user, "guesser")
			connect.Password = []byte("guess")
			if ack := c.TryConnect(connect); ack.Code != mqtt.BadUserNameOrPassword && ack.Code != mqtt.NotAuthorized || ack.ReasonString != "" {
				t.Fatalf("a wrong password of %s is answered with %v %q", user, ack.Code, ack.ReasonString)
			}
		}
	}
}

func closedAll(t *testing.T, conns []net.Conn, what string) {
	t.Helper()
	var all sync.WaitGroup
	for _, c := range conns {
		all.Go(func() {
			if answer := closed(t, c, what); len(answer) > 0 && answer[0]>>4 != byte(mqtt.CONNACK) {
				t.Errorf("%s was answered with % x", what, answer)
			}
		})
	}
	all.Wait()
}
