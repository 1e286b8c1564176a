package conformance

import (
	"testing"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/mqtttest"
)

func TestAStoppingBrokerSaysSo(t *testing.T) {
	t.Parallel()
	shows(t, "5 D5-16", "5 MQTT-3.14.2-1", "5 MQTT-3.14.2-2", "3.1.1 MQTT-4.8.0-2")
	b := mqtttest.Start(t, nil)
	var clients []*mqtttest.Client
	for _, v := range everyVersion {
		clients = append(clients, b.Connect(t, v, "dev-a"))
	}
	stopped := make(chan error, 1)
	go func() { stopped <- b.Stop() }()
	for _, c := range clients {
		if c.Version < mqtt.V5 {
			c.ExpectClosed()
			continue
		}
		if d := c.ExpectDisconnect(mqtt.ServerShuttingDown); d.HasSessionExpiry || d.ServerReference != "" {
			c.Fatalf("DISCONNECT %+v, want the code and a reason", d)
		}
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
