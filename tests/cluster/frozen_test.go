package cluster_test

import (
	"fmt"
	"testing"
	"time"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
)

// The replica that owns a session is stopped where it stands (SIGSTOP), its connections
// open, a delivery begun. The device goes to another, which asks in vain and takes the
// session; then the first goes on: for a moment it is one that serves and owns nothing, or
// it has fenced. Until it hears of the take-over it may deliver over the old connection, which
// no device reads any more, and what it delivers has the identifiers it has over the new one. It
// closes the old connection, acknowledges nothing over it that is not stored, and what it
// writes has no effect: the session gets every value once, in order.
func TestAnOwnerThatWasStoppedDuringATakeOverChangesNothing(t *testing.T) {
	for _, stopped := range []struct {
		name string
		long time.Duration
	}{
		{"within its lease", 0}, // as long as the take-over takes
		{"beyond its lease", fenceAfter + time.Second},
	} {
		t.Run(stopped.name, func(t *testing.T) {
			c := start(t)
			n := runs.Add(1)
			topic := fmt.Sprintf("frozen/%d/x", n)
			connect := c.brokers[0].ConnectAs("device", fmt.Sprintf("frozen-owner-%d", n))
			connect.CleanStart, connect.SessionExpiry = false, 600
			old := c.brokers[0].Dial(t)
			old.Connect(connect)
			old.Subscribe(harness.Data(topic), 2)
			publisher := c.brokers[1].Client(t, "device", fmt.Sprintf("frozen-publisher-%d", n))
			publish := func(value int) {
				t.Helper()
				if got := publisher.Publish(harness.Inbox("device", topic), 2, fmt.Sprint(value)); got != mqtt.Success {
					t.Fatalf("%d is acknowledged with %v", value, got)
				}
			}
			publish(1)
			begun := old.Expect(mqtt.PUBLISH) // and says nothing of it

			if err := c.Replicas[0].Pause(); err != nil {
				t.Fatal(err)
			}
			paused := time.Now()
			resumed := false
			resume := func() {
				if !resumed {
					resumed = true
					if err := c.Replicas[0].Resume(); err != nil {
						t.Error(err)
					}
				}
			}
			t.Cleanup(resume)
			own := mqtt.Publish{Topic: []byte(harness.Inbox("device", topic+"/own")), QoS: 1, PacketID: 9, Payload: []byte("77")}
			old.Send(own.Append(nil, mqtt.V5)) // lies in the socket
			fresh := c.brokers[1].Dial(t)
			if ack := fresh.Connect(connect); !ack.SessionPresent {
				t.Error("the session was not taken over")
			}
			var p mqtt.Publish
			if again := fresh.Expect(mqtt.PUBLISH); p.Decode(mqtt.V5, again.Header, again.Body) != nil || string(p.Payload) != "1" || !p.Dup {
				t.Errorf("received %q, DUP %v, want what had been begun", p.Payload, p.Dup)
			}
			var first mqtt.Publish
			if first.Decode(mqtt.V5, begun.Header, begun.Body) != nil || first.PacketID != p.PacketID {
				t.Errorf("it came under the identifier %d, and then under %d", first.PacketID, p.PacketID)
			}
			fresh.Send(mqtt.AppendAck(nil, mqtt.V5, mqtt.PUBREC, p.PacketID, 0))
			fresh.Expect(mqtt.PUBREL)
			fresh.Send(mqtt.AppendAck(nil, mqtt.V5, mqtt.PUBCOMP, p.PacketID, 0))
			ids := map[string]uint16{"1": p.PacketID}
			receive := func(value int) {
				t.Helper()
				got := fresh.Receive()
				ids[string(got.Payload)] = got.PacketID
				if string(got.Payload) != fmt.Sprint(value) {
					t.Fatalf("received %q, want %d", got.Payload, value)
				}
			}
			for value := 2; value <= 10; value++ {
				publish(value)
				receive(value)
			}
			until(t, time.Minute, "the pause to be over", func() (bool, string) { return time.Since(paused) >= stopped.long, "" })
			resume()
			got, acknowledged := closed(t, old, ids)
			if got != mqtt.SessionTakenOver && got != mqtt.ServerShuttingDown {
				t.Errorf("the old connection was closed with %v, want 0x8E, or 0x8B if its replica fenced", got)
			}
			if rows := c.brokers[1].History(t, "device", topic+"/own"); acknowledged && len(rows) == 0 {
				t.Error("what lay in the socket was acknowledged and is not in the historian")
			}
			c.awaitLinked(t)
			for value := 11; value <= 20; value++ {
				publish(value)
				receive(value)
			}
			fresh.ExpectNothing()
		})
	}
}

// closed waits for the end of a connection that was taken over, and returns the reason
// that was given and whether what had been sent over it was acknowledged before. ids are the
// packet identifiers of the values that came over the next one.
func closed(t *testing.T, old *harness.Conn, ids map[string]uint16) (code mqtt.ReasonCode, acknowledged bool) {
	t.Helper()
	for {
		packet, err := old.Next(time.Minute)
		if err != nil {
			return 0, acknowledged
		}
		switch packet.Type {
		case mqtt.PUBLISH:
			var p mqtt.Publish
			if err := p.Decode(mqtt.V5, packet.Header, packet.Body); err != nil {
				t.Fatal(err)
			}
			if id := ids[string(p.Payload)]; p.QoS != 2 || id != p.PacketID {
				t.Errorf("%q came under the identifier %d over a connection that was taken over, and under %d over the next", p.Payload, p.PacketID, id)
			}
			old.Send(mqtt.AppendAck(nil, mqtt.V5, mqtt.PUBREC, p.PacketID, 0))
		case mqtt.PUBACK:
			var a mqtt.Ack
			if err := a.Decode(mqtt.V5, packet.Header, packet.Body); err != nil {
				t.Fatal(err)
			}
			acknowledged = acknowledged || a.Code < 0x80
		case mqtt.DISCONNECT:
			var d mqtt.Disconnect
			if err := d.Decode(mqtt.V5, packet.Header, packet.Body); err != nil {
				t.Fatal(err)
			}
			return d.Code, acknowledged
		default:
			t.Errorf("%v came over a connection that was taken over", packet.Type)
		}
	}
}
