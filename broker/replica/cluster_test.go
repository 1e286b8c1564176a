package replica_test

import (
	"fmt"
	"testing"
	"time"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/mqtttest"
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
	t.Run("a retained message is every replica's", func(t *testing.T) {
		a.Connect(t, mqtt.V5, "dev-a", named("retainer")).Publish("retained/x", 1, "7")
		sub := b.Connect(t, mqtt.V5, "dev-b", named("late"))
		sub.Subscribe("retained/x", 1)
		if p := sub.ExpectPublish("retained/x", "7"); !p.Retain {
			t.Error("the message came without RETAIN")
		}
	})
	t.Run("the will of a lost connection goes out once", func(t *testing.T) {
		sub := b.Connect(t, mqtt.V5, "dev-b", named("mourner"))
		sub.Subscribe("will/#", 1)
		lost := a.Connect(t, mqtt.V5, "dev-a", named("goner"), func(p *mqtt.Connect) {
			p.Will = &mqtt.Will{Topic: mqtttest.Inbox("dev-a", "will/x"), QoS: 1, Payload: []byte(`"gone"`)}
		})
		lost.Drop()
		sub.Ack(sub.ExpectPublish("will/x", `"gone"`))
		a.Connect(t, mqtt.V5, "dev-a", named("other-publisher")).Publish("will/y", 1, "1")
		sub.Ack(sub.ExpectPublish("will/y", "1"))
	})
	t.Run("a device that is back elsewhere has no will sent", func(t *testing.T) {
		sub := b.Connect(t, mqtt.V5, "dev-b", named("watcher"))
		sub.Subscribe("back/#", 1)
		with := func(p *mqtt.Connect) {
			p.Will = &mqtt.Will{Topic: mqtttest.Inbox("dev-a", "back/x"), QoS: 1, Payload: []byte(`"gone"`), Delay: 2}
		}
		lost := a.Connect(t, mqtt.V5, "dev-a", persistent("returner"), with)
		lost.Drop()
		back := b.Connect(t, mqtt.V5, "dev-a", persistent("returner"))
		<-time.After(3 * time.Second) // the delay the will would have had
		back.Publish("back/y", 1, "1")
		sub.Ack(sub.ExpectPublish("back/y", "1"))
	})
	for _, drop := range []bool{true, false} {
		t.Run(fmt.Sprintf("a clean start elsewhere ends the session, and its will is sent, lost before %v", drop), func(t *testing.T) {
			sub := b.Connect(t, mqtt.V5, "dev-b", named("clean-watcher"))
			sub.Subscribe("ended/#", 1)
			with := func(p *mqtt.Connect) {
				p.Will = &mqtt.Will{Topic: mqtttest.Inbox("dev-a", "ended/x"), QoS: 1, Payload: []byte(`"gone"`), Delay: 600}
			}
			lost := a.Connect(t, mqtt.V5, "dev-a", persistent("starter"), with)
			if drop {
				lost.Drop()
			}
			b.Connect(t, mqtt.V5, "dev-a", persistent("starter"), func(p *mqtt.Connect) { p.CleanStart = true })
			sub.Ack(sub.ExpectPublish("ended/x", `"gone"`))
		})
	}
	t.Run("a shared subscription has members at both", func(t *testing.T) {
		filter := "$share/crew/" + mqtttest.Data("plant", "crew/#")
		left, right := a.Connect(t, mqtt.V5, "dev-a", named("left")), b.Connect(t, mqtt.V5, "dev-b", named("right"))
		left.Subscribe(filter, 1)
		right.Subscribe(filter, 1)
		pub := a.Connect(t, mqtt.V5, "dev-a", named("foreman"))
		for n := range 20 {
			pub.Publish("crew/x", 1, fmt.Sprint(n))
		}
		seen := map[string]int{}
		for _, c := range []*mqtttest.Client{left, right} {
			for range 10 {
				p := mqtttest.Expect[mqtt.Publish](c)
				seen[string(p.Payload)]++
				c.Ack(p)
			}
			c.ExpectNothing()
		}
		if len(seen) != 20 {
			t.Errorf("the group received %d of 20 values: %v", len(seen), seen)
		}
	})
}
