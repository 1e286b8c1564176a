package sessions

import (
	"fmt"
	"testing"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tests/mqtttest"
	"maestrohub.io/uns/tests/site"
)

// What an API client had kept ends with it: its client identifiers are free, nothing is
// kept for it any more, no will goes out in its name, and what its members of shared
// subscriptions had not read goes to the others.
func TestADeletedClientLeavesNothing(t *testing.T) {
	t.Run("in memory", func(t *testing.T) {
		b := mqtttest.Start(t, nil)
		deletedClient(t, &pair{b, b})
	})
	t.Run("on two replicas", func(t *testing.T) {
		s := site.Start(t)
		deletedClient(t, &pair{s.Replica(t, "a", nil), s.Replica(t, "b", nil)})
	})
}

func deletedClient(t *testing.T, p *pair) {
	manage := p.b.Replica.Access()
	add := func(id string) {
		t.Helper()
		if _, err := manage.Add(t.Context(), access.Client{ID: id, Workspace: "plant", Publish: []string{"#"}, Subscribe: []string{"#"}}, mqtttest.Secret(id)); err != nil {
			t.Fatal(err)
		}
	}
	named := func(id string) func(*mqtt.Connect) {
		return func(p *mqtt.Connect) { p.ClientID, p.CleanStart, p.SessionExpiry = id, false, 600 }
	}
	willing := func(user, topic string) func(*mqtt.Connect) {
		return func(p *mqtt.Connect) {
			p.Will = &mqtt.Will{Topic: mqtttest.Inbox(user, topic), QoS: 1, Payload: []byte(`"gone"`)}
		}
	}
	const count = 20
	filter := "$share/group/" + mqtttest.Data("plant", "left/#")
	for _, id := range []string{"guest", "turned"} {
		add(id)
		away := p.a.Connect(t, mqtt.V5, id, named(id+"-away"))
		away.Subscribe("own/#", 1)
		if id == "guest" {
			away.Subscribe(filter, 1)
		}
		away.Disconnect()
	}
	from := p.b.Connect(t, mqtt.V5, "dev-b", named("from"))
	for n := range count {
		from.Publish("left/x", 1, fmt.Sprint(n)) // for the one who is away, and nobody else
	}
	other := p.b.Connect(t, mqtt.V5, "dev-a", named("other"))
	other.Subscribe(filter, 1)
	other.Subscribe("will/#", 1)
	open := p.b.Connect(t, mqtt.V5, "guest", named("guest-open"), willing("guest", "will/x"))
	open.Subscribe("own/#", 1)

	// Whoever is disabled or gets another secret, and comes back, has everything kept.
	if _, err := manage.Rotate(t.Context(), "turned"); err != nil {
		t.Fatal(err)
	}
	if err := manage.Disable(t.Context(), "turned"); err != nil {
		t.Fatal(err)
	}
	if err := manage.Delete(t.Context(), "guest"); err != nil {
		t.Fatal(err)
	}
	open.ExpectDisconnect(mqtt.NotAuthorized)
	for n := range count {
		other.Ack(other.ExpectPublish("left/x", fmt.Sprint(n)))
	}
	for _, id := range []string{"guest-away", "guest-open"} {
		var c *mqtttest.Client
		harness.Eventually(t, id+" to be free", func() (bool, string) {
			c = p.a.Dial(t, mqtt.V5, "tcp")
			said := c.Connect(p.a.Credentials("dev-b", named(id)))
			return said.Code == mqtt.Success, said.Code.Error()
		})
		if c.Connack.SessionPresent {
			t.Errorf("another API client gets the session %s of the deleted one", id)
		}
		c.Disconnect()
	}
	from.Publish("will/x", 1, "1")
	other.Ack(other.ExpectPublish("will/x", "1")) // and no will before it

	if err := manage.Enable(t.Context(), "turned"); err != nil {
		t.Fatal(err)
	}
	secret, err := manage.Rotate(t.Context(), "turned")
	if err != nil {
		t.Fatal(err)
	}
	back := p.b.Connect(t, mqtt.V5, "turned", named("turned-away"), func(p *mqtt.Connect) { p.Password = []byte(secret) })
	if !back.Connack.SessionPresent {
		t.Error("the session of a client that was disabled, enabled and rotated is gone")
	}
}
