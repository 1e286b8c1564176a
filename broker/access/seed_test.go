package access

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"maestrohub.io/uns/broker/state"
)

func seed(t testing.TB, a *Access, format string, args ...any) {
	t.Helper()
	fatal(t, a.Seed(t.Context(), []byte(fmt.Sprintf(format, args...))))
}

func TestSeedingAddsAndChangesWhatIsDeclared(t *testing.T) {
	a := openAccess(t, Options{})
	byRest := add(t, a, Client{ID: "by-rest", Workspace: "w"})
	generated := newSecret()
	hash, err := HashSecret("another secret")
	fatal(t, err)
	seed(t, a, `
clients:
  - id: full
    secret: chosen secret
    workspace: plant
    publish: [line1/#]
    subscribe: []
    scopes: [uns:read, uns_settings:update]
  - {id: fast, secret: %q, workspace: plant}
  - {id: hashed, secretHash: %q, workspace: plant}
`, generated, hash)
	full, err := a.Get(t.Context(), "full")
	fatal(t, err)
	if full.Workspace != "plant" || len(full.Publish) != 1 || full.Subscribe == nil || len(full.Subscribe) != 0 || len(full.Scopes) != 2 || !strings.HasPrefix(full.SecretHash, "$argon2id$") {
		t.Errorf("seeded %+v", full)
	}
	fast, err := a.Get(t.Context(), "fast")
	fatal(t, err)
	if len(fast.Publish) != 1 || fast.Publish[0] != "#" || len(fast.Subscribe) != 1 || !strings.HasPrefix(fast.SecretHash, "$sha256$") {
		t.Errorf("seeded %+v", fast)
	}
	signIn(t, a, "full", "chosen secret")
	signIn(t, a, "fast", generated)
	signIn(t, a, "hashed", "another secret")
	seed(t, a, `clients: [{id: full, secret: new secret here, workspace: plant, publish: []}]`)
	signIn(t, a, "full", "new secret here")
	refused(t, a, "full", "chosen secret", "the old secret")
	if full, err = a.Get(t.Context(), "full"); err != nil || len(full.Publish) != 0 || full.Subscribe[0] != "#" {
		t.Errorf("seeded again: %+v, error %v", full, err)
	}
	signIn(t, a, "by-rest", byRest) // not declared, not touched
	signIn(t, a, "fast", generated)
	seed(t, a, `clients: [{id: by-rest, secret: declared now, workspace: w}]`)
	signIn(t, a, "by-rest", "declared now")
}

func TestAnUnchangedSeedUndoesNothing(t *testing.T) {
	a := openAccess(t, Options{})
	file := `clients:
  - {id: rotated, secret: first secret, workspace: w}
  - {id: disabled, secret: first secret, workspace: w}
  - {id: deleted, secret: first secret, workspace: w}
  - {id: same, secret: first secret, workspace: w}
`
	seed(t, a, "%s", file)
	same := signIn(t, a, "same", "first secret")
	rotated, err := a.Rotate(t.Context(), "rotated")
	fatal(t, err)
	fatal(t, a.Disable(t.Context(), "disabled"))
	fatal(t, a.Delete(t.Context(), "deleted"))
	for range 2 {
		seed(t, a, "%s", file)
		signIn(t, a, "rotated", rotated)
		refused(t, a, "rotated", "first secret", "the secret from before the rotation")
		refused(t, a, "disabled", "first secret", "disabled over REST")
		refused(t, a, "deleted", "first secret", "deleted over REST")
		if _, err := recheck(a, same); err != nil {
			t.Fatalf("an unchanged seed ends a session: %v", err)
		}
	}
	// Other grants: taken over, the rotation stays.
	seed(t, a, `clients: [{id: rotated, secret: first secret, workspace: w, publish: [only]}, {id: deleted, secret: first secret, workspace: w, publish: [only]}]`)
	if g := signIn(t, a, "rotated", rotated); !g.MayPublish("only") || g.MayPublish("other") {
		t.Error("the new grants were not taken over")
	}
	signIn(t, a, "deleted", "first secret") // its entry changed
	// Another secret: taken over.
	seed(t, a, `clients: [{id: rotated, secret: second secret, workspace: w, publish: [only]}]`)
	signIn(t, a, "rotated", "second secret")
	refused(t, a, "rotated", rotated, "the rotated secret")
}

func TestTwoReplicasSeedAtOnce(t *testing.T) {
	store := openStore(t)
	var file strings.Builder
	file.WriteString("clients:\n")
	secret := newSecret()
	for i := range 50 {
		fmt.Fprintf(&file, "  - {id: c%d, secret: %q, workspace: w}\n", i, secret)
	}
	done := make(chan error)
	replicas := []*Access{openOn(t, store, Options{}), openOn(t, store, Options{})}
	for _, a := range replicas {
		go func() { done <- a.Seed(context.Background(), []byte(file.String())) }()
	}
	for range replicas {
		fatal(t, <-done)
	}
	clients, err := replicas[0].List(t.Context())
	if err != nil || len(clients) != 50 {
		t.Fatalf("%d clients, error %v", len(clients), err)
	}
	for i := range 50 {
		signIn(t, replicas[i%2], fmt.Sprint("c", i), secret)
	}
}

// TestMistakesInClientsFiles: testdata/*.yaml, each with the error it gives in
// the .err beside it.
func TestMistakesInClientsFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/clients/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			fatal(t, err)
			want, err := os.ReadFile(strings.TrimSuffix(file, ".yaml") + ".err")
			fatal(t, err)
			got := ""
			if err := CheckSeed(data); err != nil {
				got = err.Error() + "\n"
			}
			if got != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
			if strings.Contains(got, "hunter") {
				t.Error("the error shows a secret")
			}
			a := openAccess(t, Options{})
			if err := a.Seed(t.Context(), data); (err != nil) != (got != "") {
				t.Errorf("Seed: %v", err)
			}
			if got != "" {
				if clients, err := a.List(t.Context()); err != nil || len(clients) != 0 {
					t.Errorf("a refused file left %d clients (error %v)", len(clients), err)
				}
			}
		})
	}
}

func TestASeedThatWasCutShortIsCompleted(t *testing.T) {
	f := &faults{Store: openStore(t)}
	a := openOn(t, f, Options{})
	file := []byte(`clients: [{id: c, secret: first secret, workspace: w}]`)
	writes := 0
	f.write = func(do func() (uint64, error)) (uint64, error) {
		if writes++; writes > 1 {
			return 0, state.ErrUnavailable
		}
		return do()
	}
	if err := a.Seed(t.Context(), file); !errors.Is(err, state.ErrUnavailable) {
		t.Fatalf("seed: %v, want the store's error", err)
	}
	f.write = nil
	fatal(t, a.Seed(t.Context(), file))
	signIn(t, a, "c", "first secret")
}

func FuzzClientsFile(f *testing.F) {
	files, _ := filepath.Glob("testdata/clients/*.yaml")
	for _, file := range files {
		data, err := os.ReadFile(file)
		fatal(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		clients, err := parseSeed(data)
		if err != nil {
			return
		}
		for _, d := range clients {
			if err := d.client.check(); err != nil {
				t.Errorf("accepted %+v: %v", d.client, err)
			}
			if (d.secret == "") == (d.client.SecretHash == "") {
				t.Errorf("accepted %+v with secret %q", d.client, d.secret)
			}
		}
	})
}
