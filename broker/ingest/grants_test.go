package ingest

import (
	"net/netip"
	"testing"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/broker/state/memory"
)

func grantsFor(t testing.TB, client, workspace string) *access.Grants {
	t.Helper()
	return access.GrantsFor(client, workspace)
}

// signedIn returns the grants of a client that may publish to some topics only.
func signedIn(t testing.TB, client, workspace string, publish ...string) *access.Grants {
	t.Helper()
	store, err := memory.Open(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	a, err := access.Open(t.Context(), store, access.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	secret, err := a.Add(t.Context(), access.Client{ID: client, Workspace: workspace, Publish: publish}, "")
	if err != nil {
		t.Fatal(err)
	}
	g, err := a.SignIn(t.Context(), client, []byte(secret), netip.Addr{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}
