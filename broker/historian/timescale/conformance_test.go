package timescale

import (
	"strings"
	"testing"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/historian/historiantest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	url := database(t, shared)
	historiantest.Run(t, func(t *testing.T, store string) historian.Historian {
		return open(t, url, Options{Schema: strings.ReplaceAll(store[:min(len(store), maxSchemaName)], "-", "_")})
	})
}
