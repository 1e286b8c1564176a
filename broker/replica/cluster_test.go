package replica_test

import (
	"fmt"
	"testing"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/site"
)

func persistent(id string) func(*mqtt.Connect) {
	return func(p *mqtt.Connect) { p.ClientID, p.CleanStart, p.SessionExpiry = id, false, 600 }
}

func named(id string) func(*mqtt.Connect) {
	return func(p *mqtt.Connect) { p.ClientID = id }
}

func TestTwoReplicasAreOneBroker(t *testing.T) {
	s := site.Start(t)
	a, b := s.Replica(t, "a", nil), s.Replica(t, "b", nil)

	t.Run("a value goes to a clean subscriber of the other replica", func(t *testing.T) {
		sub := b.Connect(t, mqtt.V5, "dev-b", named("clean"))
		sub.Subscribe("live/#", 1)
		pub := a.Connect(t, mqtt.V5, "dev-a", named("live-publisher"))
		for n := range 20 {
			pub.Publish("live/x", 1, fmt.Sprint(n))
		}
		for n := range 20 {
			sub.Ack(sub.ExpectPublish("live/x", fmt.Sprint(n)))
		}
	})
	t.Run("a session moves with what it is owed", func(t *testing.T) {
		sub := a.Connect(t, mqtt.V5, "dev-b", persistent("mover"))
		sub.Subscribe("kept/#", 2)
		pub := b.Connect(t, mqtt.V5, "dev-a", named("kept-publisher"))
		pub.Publish("kept/x", 2, "0")
		sub.Ack(sub.ExpectPublish("kept/x", "0"))
		sub.Disconnect()
		for n := 1; n <= 50; n++ {
			pub.Publish("kept/x", 2, fmt.Sprint(n))
		}
		again := b.Connect(t, mqtt.V5, "dev-b", persistent("mover"))
		if !again.Connack.SessionPresent {
			t.Fatal("the session is not present at the other replica")
		}
		for n := 1; n <= 50; n++ {
			again.Ack(again.ExpectPublish("kept/x", fmt.Sprint(n)))
		}
		again.ExpectNothing()
	})
	t.Run("a client identifier is taken over across replicas", func(t *testing.T) {
		old := a.Connect(t, mqtt.V5, "dev-a", persistent("roamer"))
		old.Subscribe("roam/#", 1)
		fresh := b.Connect(t, mqtt.V5, "dev-a", persistent("roamer"))
		old.ExpectDisconnect(mqtt.SessionTakenOver)
		if !fresh.Connack.SessionPresent {
			t.Error("the session did not come along")
		}
		other := a.Dial(t, mqtt.V5, "tcp")
		if c := other.Connect(a.Credentials("dev-b", persistent("roamer"))); c.Code != mqtt.ClientIdentifierNotValid {
			t.Errorf("another identity: %v, want %v", c.Code, mqtt.ClientIdentifierNotValid)
		}
	})
}
