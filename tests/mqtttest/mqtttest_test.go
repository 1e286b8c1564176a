package mqtttest_test

import (
	"bytes"
	"testing"

	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/mqtttest"
)

func TestAValueGoesFromInboxToSubscriber(t *testing.T) {
	dir := t.TempDir()
	plain := mqtttest.Start(t, nil)
	secure := mqtttest.Start(t, func(c *config.Config) {
		if err := mqtttest.Secure(c, dir); err != nil {
			t.Fatal(err)
		}
	})
	for transport, b := range map[string]*mqtttest.Broker{"tcp": plain, "ws": plain, "tls": secure, "wss": secure} {
		for _, v := range []mqtt.Version{mqtt.V31, mqtt.V311, mqtt.V5} {
			t.Run(transport+" "+v.String(), func(t *testing.T) {
				sub := b.ConnectOver(t, transport, v, "dev-b")
				sub.Subscribe("line/#", 2)
				pub := b.ConnectOver(t, transport, v, "dev-a")
				for qos := range byte(3) {
					pub.Publish("line/1", qos, "21.5")
					p := sub.ExpectPublish("line/1", "21.5")
					sub.Ack(p)
				}
				sub.ExpectNothing()
				sub.Disconnect()
			})
		}
	}
}

func TestWireNotation(t *testing.T) {
	got := mqtttest.Wire(`82 (000A () "a" 01)`)
	if want := []byte{0x82, 7, 0, 10, 0, 0, 1, 'a', 1}; !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}
