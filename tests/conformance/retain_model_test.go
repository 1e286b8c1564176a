package conformance

import (
	"os"
	"strings"
	"testing"

	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tests/mqtttest"
)

func TestATopicThatRetainsNoLongerGivesNothingToNewSubscribers(t *testing.T) {
	t.Parallel()
	var model string
	b := mqtttest.Start(t, func(c *config.Config) { model = c.ModelFile })
	set := func(text string) {
		t.Helper()
		if err := os.WriteFile(model+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(model+".new", model); err != nil {
			t.Fatal(err)
		}
	}
	retained := func() int {
		c := b.Connect(t, mqtt.V5, "dev-b")
		defer c.Disconnect()
		c.Subscribe("retained/x", 1)
		c.SendRaw(mqtt.AppendPingreq(nil))
		n := 0
		for p := c.Next(); p.Header.Type == mqtt.PUBLISH; p = c.Next() {
			n++
		}
		return n
	}
	b.Connect(t, mqtt.V5, "dev-a").Publish("retained/x", 1, "1")
	if n := retained(); n != 1 {
		t.Fatalf("%d retained messages while the topic retains, want 1", n)
	}
	set(strings.Replace(mqtttest.World, `{topic: "retained/#", retain: true}`, `{topic: "retained/#"}`, 1))
	harness.Eventually(t, "the retained message to be withheld", func() (bool, string) { return retained() == 0, "it is still given" })
	set(mqtttest.World)
	harness.Eventually(t, "the retained message to be there again", func() (bool, string) { return retained() == 1, "it is not given" })
}
