package access

import (
	"errors"
	"testing"
)

// Whoever looks at the status while the store is away is who they were when it went.
func TestWhileTheStoreIsAwayAClientIsLetLookAsItWasLastKnown(t *testing.T) {
	store := openStore(t)
	a := openOn(t, store, Options{})
	secret, err := a.Add(t.Context(), Client{ID: "admin", Workspace: "plant", Scopes: []string{ScopeSettings}}, "")
	if err != nil {
		t.Fatal(err)
	}
	disabled, err := a.Add(t.Context(), Client{ID: "gone", Workspace: "plant"}, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Disable(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	deleted, err := a.Add(t.Context(), Client{ID: "deleted", Workspace: "plant"}, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Delete(t.Context(), "deleted"); err != nil {
		t.Fatal(err)
	}
	signIn(t, a, "admin", secret)
	token, err := a.Token(t.Context(), "admin", secret, ScopeSettings, nowhere)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.SignIn(t.Context(), "admin", []byte(secret), nowhere); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("sign-in without the store: %v, want %v", err, ErrUnavailable)
	}
	for what, password := range map[string]string{"secret": secret, "token": token.AccessToken} {
		g, err := a.SignInToLook(t.Context(), "admin", []byte(password), nowhere)
		if err != nil || !g.Scope(ScopeSettings) || g.Workspace() != "plant" {
			t.Errorf("to look, by %s: %v", what, err)
		}
	}
	for id, password := range map[string]string{"admin": "wrong", "gone": disabled, "deleted": deleted, "nobody": secret} {
		if _, err := a.SignInToLook(t.Context(), id, []byte(password), nowhere); !errors.Is(err, ErrRefused) {
			t.Errorf("to look, as %s: %v, want %v", id, err, ErrRefused)
		}
	}
}
