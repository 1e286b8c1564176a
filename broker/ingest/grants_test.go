package ingest

import (
	"testing"

	"maestrohub.io/uns/broker/access"
)

func grantsFor(t testing.TB, client, workspace string) *access.Grants {
	return access.GrantsFor(client, workspace)
}
