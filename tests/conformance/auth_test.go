package conformance

import (
	"testing"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/mqtttest"
)

// The broker offers no method of enhanced authentication, and says so at once.
func TestEnhancedAuthenticationIsRefused(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-4.12.0-1", "5 MQTT-4.12.0-4", "5 MQTT-3.2.2-7", "5 MQTT-3.2.2-6")
	for _, data := range [][]byte{nil, {}, []byte("n,,n=dev-a,r=x")} {
		c := broker.Dial(t, mqtt.V5, "tcp")
		p := broker.Credentials("dev-a", func(p *mqtt.Connect) { p.HasAuthMethod, p.AuthMethod, p.AuthData = true, "SCRAM-SHA-256", data })
		c.SendRaw((&mqtt.Auth{Code: mqtt.ContinueAuthentication, Method: "SCRAM-SHA-256"}).Append(p.Append(nil, mqtt.V5), mqtt.V5))
		if a := mqtttest.Expect[mqtt.Connack](c); a.Code != mqtt.BadAuthenticationMethod || a.SessionPresent || a.AuthMethod != "" {
			c.Fatalf("%s, method %q; want %s and none", a.Code.Error(), a.AuthMethod, mqtt.BadAuthenticationMethod.Error())
		}
		c.ExpectClosed()
	}
}

func TestWithoutAMethodThereIsNoAUTH(t *testing.T) {
	t.Parallel()
	shows(t, "5 MQTT-4.12.0-6", "5 MQTT-3.15.2-1", "5 MQTT-4.12.1-2")
	c := broker.Connect(t, mqtt.V5, "dev-a")
	if c.Connack.AuthMethod != "" || c.Connack.AuthData != nil {
		c.Fatalf("CONNACK with method %q", c.Connack.AuthMethod)
	}
	c.ExpectNothing()
	for _, code := range []mqtt.ReasonCode{mqtt.Success, mqtt.ContinueAuthentication, mqtt.Reauthenticate} {
		c := broker.Connect(t, mqtt.V5, "dev-a")
		c.Send(&mqtt.Auth{Code: code, Method: "SCRAM-SHA-256"})
		c.ExpectDisconnect(mqtt.ProtocolError)
	}
}
