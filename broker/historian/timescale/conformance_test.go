package timescale

import (
	"testing"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/historian/historiantest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	made := map[string]string{}
	historiantest.Run(t, func(t *testing.T, store string) historian.Historian {
		if made[store] == "" {
			made[store] = database(t, shared)
		}
		return open(t, made[store], Options{})
	})
}
