package hostile_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
)

const (
	healthy  = "healthy"  // the API client of the witnesses
	attacker = "attacker" // a valid credential in the wrong hands
)

// limits are small enough to be met by a test in a second or two.
var limits = map[string]any{
	"embeddedBrokerLimits": map[string]any{
		"connectTimeout": "1s", "maxPendingConnections": 100, "maxClients": 300, "maxConnectionsPerCredential": 150,
		"maxSubscriberQueue": 1000, "authFailureThreshold": 1000, "maxClientWritesPending": 100,
	},
	"embeddedBroker.maxPacketBytes": "64KiB",
}

// rig is a broker with its witnesses.
type rig struct{ *harness.Broker }

// start starts a broker whose two healthy clients exchange values until the test
// ends, and fails the test if they were harmed: a value missing, late, refused or
// out of order, a connection lost, the broker restarted or no longer ready.
func start(t *testing.T) *rig {
	t.Helper()
	r := &rig{harness.Start(t, harness.Options{Clients: harness.Clients(healthy, attacker), Settings: limits, WebSocket: true})}
	r.watch(t)
	return r
}

// watch runs the witnesses until the test ends.
func (r *rig) watch(t *testing.T) {
	t.Helper()
	const topic = "witness/values"
	subscriber := r.Client(t, healthy, "witness-sub")
	subscriber.Subscribe(harness.Data(topic), 1)
	publisher := r.Client(t, healthy, "witness-pub")
	stop := make(chan struct{})
	var exchanged int
	var slowest time.Duration
	var harm error
	var done sync.WaitGroup
	done.Go(func() {
		for harm == nil {
			select {
			case <-stop:
				return
			default:
			}
			sent := time.Now()
			harm = exchange(publisher, subscriber, topic, exchanged)
			slowest = max(slowest, time.Since(sent))
			exchanged++
		}
	})
	t.Cleanup(func() {
		close(stop)
		done.Wait()
		if harm != nil {
			t.Errorf("the healthy clients were harmed after %d values: %v", exchanged, harm)
		}
		if exchanged == 0 {
			t.Error("the healthy clients exchanged nothing")
		}
		select {
		case <-r.Process().Exited():
			t.Error("the broker ended")
		default:
			if status, body := get("http://" + r.HTTP + "/health/ready"); status != http.StatusOK {
				t.Errorf("/health/ready answers %d %s", status, body)
			}
		}
		t.Logf("meanwhile the healthy clients exchanged %d values, the slowest in %s", exchanged, slowest)
	})
}

// exchange publishes a value and waits for its acknowledgment and its delivery.
// It runs outside the test's goroutine and so does not fail the test itself.
func exchange(publisher, subscriber *harness.Conn, topic string, n int) error {
	payload := strconv.Itoa(n)
	publish := mqtt.Publish{QoS: 1, PacketID: uint16(n%65535 + 1), Topic: []byte(harness.Inbox(healthy, topic)), Payload: []byte(payload)}
	if _, err := publisher.Write(publish.Append(nil, mqtt.V5)); err != nil {
		return fmt.Errorf("publish value %d: %w", n, err)
	}
	p, err := publisher.Next(harness.Patience)
	if err != nil {
		return fmt.Errorf("wait for the acknowledgment of value %d: %w", n, err)
	}
	var ack mqtt.Ack
	if p.Type != mqtt.PUBACK || ack.Decode(mqtt.V5, p.Header, p.Body) != nil || ack.PacketID != publish.PacketID || ack.Code >= 0x80 {
		return fmt.Errorf("value %d was answered with %v %v", n, p.Type, ack.Code)
	}
	if p, err = subscriber.Next(harness.Patience); err != nil {
		return fmt.Errorf("wait for value %d: %w", n, err)
	}
	var got mqtt.Publish
	if p.Type != mqtt.PUBLISH || got.Decode(mqtt.V5, p.Header, p.Body) != nil || string(got.Payload) != payload {
		return fmt.Errorf("received %v %q, want value %d", p.Type, got.Payload, n)
	}
	_, err = subscriber.Write(mqtt.AppendAck(nil, mqtt.V5, mqtt.PUBACK, got.PacketID, 0))
	return err
}

func get(url string) (int, string) {
	response, err := http.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}

// dial opens a connection that the test may leave open or break.
func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", address, harness.Patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// closed waits until the other side has closed, and says what it sent before.
func closed(t *testing.T, c net.Conn, what string) []byte {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(harness.Patience)); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%s: the broker still holds the connection after %s", what, harness.Patience)
	}
	return answer
}
