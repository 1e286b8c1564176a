package access

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"maestrohub.io/uns/broker/state"
)

func TestClientsAreManaged(t *testing.T) {
	ctx := t.Context()
	a := openAccess(t, Options{})
	for _, id := range []string{"b", "a", "ünï-1.2:x@y"} {
		add(t, a, Client{ID: id, Workspace: "w", Publish: []string{}, Scopes: []string{ScopeClients}})
	}
	if _, err := a.Add(ctx, Client{ID: "a", Workspace: "other"}, ""); !errors.Is(err, ErrExists) {
		t.Errorf("add of an existing client: %v, want ErrExists", err)
	}
	clients, err := a.List(ctx)
	fatal(t, err)
	if len(clients) != 3 || clients[0].ID != "a" || clients[1].ID != "b" {
		t.Errorf("list: %v", clients)
	}
	c, err := a.Get(ctx, "a")
	fatal(t, err)
	if c.Workspace != "w" || len(c.Publish) != 0 || c.Subscribe[0] != "#" || c.Scopes[0] != ScopeClients || c.Created.IsZero() || c.Generation == 0 || c.Disabled {
		t.Errorf("client %+v", c)
	}
	fatal(t, a.Disable(ctx, "a"))
	fatal(t, a.Disable(ctx, "a"))
	if d, err := a.Get(ctx, "a"); err != nil || !d.Disabled || d.Generation == c.Generation || !d.Created.Equal(c.Created) {
		t.Errorf("disabled client %+v, error %v", d, err)
	}
	fatal(t, a.Enable(ctx, "a"))
	fatal(t, a.Delete(ctx, "a"))
	for what, err := range map[string]error{
		"get":     func() error { _, err := a.Get(ctx, "a"); return err }(),
		"rotate":  func() error { _, err := a.Rotate(ctx, "a"); return err }(),
		"disable": a.Disable(ctx, "a"), "enable": a.Enable(ctx, "a"), "delete": a.Delete(ctx, "a"), "delete of nonsense": a.Delete(ctx, "x/\x00"),
	} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s of a deleted client: %v, want ErrNotFound", what, err)
		}
	}
	add(t, a, Client{ID: "a", Workspace: "w"})
}

func TestWhatCannotBeAClientIsRefusedWithTheReason(t *testing.T) {
	a := openAccess(t, Options{})
	good := Client{ID: "c", Workspace: "w"}
	for want, change := range map[string]func(c *Client) (secret string){
		"id: missing":                func(c *Client) string { c.ID = ""; return "" },
		`id: "a/b" holds '/'`:        func(c *Client) string { c.ID = "a/b"; return "" },
		"id: has 129 bytes":          func(c *Client) string { c.ID = strings.Repeat("x", 129); return "" },
		`id: "a\xff" is not UTF-8`:   func(c *Client) string { c.ID = "a\xff"; return "" },
		`id: "a\x00" holds '\x00'`:   func(c *Client) string { c.ID = "a\x00"; return "" },
		`workspace: "a b" holds ' '`: func(c *Client) string { c.Workspace = "a b"; return "" },
		"publish[1]: topic filter":   func(c *Client) string { c.Publish = []string{"a", "a/#/b"}; return "" },
		"subscribe[0]:":              func(c *Client) string { c.Subscribe = []string{strings.Repeat("x", 1025)}; return "" },
		"subscribe: 1001 filters":    func(c *Client) string { c.Subscribe = make([]string, 1001); return "" },
		`scopes[0]: "root"`:          func(c *Client) string { c.Scopes = []string{"root"}; return "" },
		"secret: has 5 bytes":        func(c *Client) string { return "short" },
		"secret hash:":               func(c *Client) string { c.SecretHash = "x"; return "" },
		"both given":                 func(c *Client) string { c.SecretHash = fastHash("x"); return "a good secret" },
	} {
		c := good
		secret := change(&c)
		_, err := a.Add(t.Context(), c, secret)
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// TestUnknownOutcomesAreSettled lets each write land, or not, without saying so.
func TestUnknownOutcomesAreSettled(t *testing.T) {
	for _, lands := range []bool{true, false} {
		t.Run(fmt.Sprintf("lands %v", lands), func(t *testing.T) {
			f := &faults{Store: openStore(t)}
			a := openOn(t, f, Options{})
			left := 0
			f.write = func(do func() (uint64, error)) (uint64, error) {
				if left--; left >= 0 {
					if lands {
						do()
					}
					return 0, state.ErrUnknown
				}
				return do()
			}
			left = 2
			secret, err := a.Add(t.Context(), Client{ID: "c", Workspace: "w"}, "")
			fatal(t, err)
			signIn(t, a, "c", secret)
			left = 2
			rotated, err := a.Rotate(t.Context(), "c")
			fatal(t, err)
			signIn(t, a, "c", rotated)
			left = 1
			fatal(t, a.Disable(t.Context(), "c"))
			left = 1
			fatal(t, a.Delete(t.Context(), "c"))
			if _, err := a.Get(t.Context(), "c"); !errors.Is(err, ErrNotFound) {
				t.Errorf("get of a deleted client: %v", err)
			}
		})
	}
}

func TestChangesThatMeetAreBothMade(t *testing.T) {
	store := openStore(t)
	a, b := openOn(t, store, Options{}), openOn(t, store, Options{})
	add(t, a, Client{ID: "c", Workspace: "w"})
	done := make(chan error)
	go func() {
		var err error
		for range 50 {
			_, e := a.Rotate(context.Background(), "c")
			err = errors.Join(err, e)
		}
		done <- err
	}()
	var secret string
	var err error
	for range 50 {
		fatal(t, b.Disable(t.Context(), "c"))
		fatal(t, b.Enable(t.Context(), "c"))
	}
	fatal(t, <-done)
	secret, err = a.Rotate(t.Context(), "c")
	fatal(t, err)
	signIn(t, b, "c", secret)
}

func TestADamagedRecordIsAnOutageAndCanBeRemoved(t *testing.T) {
	a := openAccess(t, Options{})
	secret := add(t, a, Client{ID: "c", Workspace: "w"})
	r, err := a.bucket.Get(t.Context(), clientKeys+"c")
	fatal(t, err)
	later := append([]byte{recordFormat + 1}, r.Value[1:]...)
	for what, value := range map[string][]byte{"empty": {}, "later format": later, "cut": r.Value[:len(r.Value)/2],
		"of another client": bytes.Replace(r.Value, []byte(`"id":"c"`), []byte(`"id":"d"`), 1), "unknown field": bytes.Replace(r.Value, []byte(`"id"`), []byte(`"more":1,"id"`), 1)} {
		if _, err := a.bucket.Put(t.Context(), clientKeys+"c", value); err != nil {
			t.Fatal(err)
		}
		if _, err := a.SignIn(t.Context(), "c", []byte(secret), nowhere); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: sign-in: %v, want ErrUnavailable", what, err)
		}
		if _, err := a.List(t.Context()); !errors.Is(err, errRecord) || !strings.Contains(err.Error(), `"c"`) {
			t.Errorf("%s: list: %v, want an error that names the client", what, err)
		}
	}
	fatal(t, a.Delete(t.Context(), "c"))
	add(t, a, Client{ID: "c", Workspace: "w"})
}

func FuzzRecord(f *testing.F) {
	c := Client{ID: "c", Workspace: "w", SecretHash: fastHash("x"), Generation: 7}
	c.complete()
	f.Add(encodeClient(c))
	f.Add(encode(seedRecord{Secret: "s", Grants: "g"}))
	f.Add(encode(tokenKeys{Keys: []tokenKey{{ID: "k", Secret: make([]byte, 32)}}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		if k, err := decodeTokenKeys(data); err == nil && len(k.Keys) == 0 {
			t.Error("token keys without a key")
		}
		var s seedRecord
		decode(data, &s)
		got, err := decodeClient("c", data)
		if err != nil {
			if !errors.Is(err, errRecord) {
				t.Errorf("error %v does not say that the record is damaged", err)
			}
			return
		}
		again, err := decodeClient("c", encodeClient(got))
		if err != nil || !bytes.Equal(encodeClient(again), encodeClient(got)) {
			t.Errorf("decoded %+v, again %+v, error %v", got, again, err)
		}
	})
}

// What a client had kept is ended by a deletion, which stands in the store, and by nothing
// that looks like one.
func TestOnlyADeletionCountsAsOne(t *testing.T) {
	store := &faults{Store: openStore(t)}
	a, err := Open(t.Context(), store, Options{})
	fatal(t, err)
	t.Cleanup(a.Close)
	is := func(want bool, id, why string) {
		t.Helper()
		if deleted, err := a.Deleted(t.Context(), id); err != nil || deleted != want {
			t.Errorf("%s, %s: deleted %v, %v, want %v", id, why, deleted, err, want)
		}
	}
	is(false, "nobody", "of whom the store knows nothing")
	is(false, "no/name", "which none can have")
	add(t, a, Client{ID: "press-7", Workspace: "plant"})
	is(false, "press-7", "who is there")
	fatal(t, a.Disable(t.Context(), "press-7"))
	is(false, "press-7", "disabled")
	fatal(t, a.Delete(t.Context(), "press-7"))
	is(true, "press-7", "deleted")
	// Whoever is none of the store's is asked for once, until somebody is deleted.
	asked := 0
	store.get = func() error { asked++; return nil }
	for range 10 {
		is(false, "of-another-issuer", "whom the store does not know")
	}
	if asked == 0 || asked > 2 { // once more where the watch tells of the deletion only now
		t.Errorf("the store was asked %d times for who is none of its own", asked)
	}
	store.get = nil
	add(t, a, Client{ID: "guest", Workspace: "plant"})
	fatal(t, a.Delete(t.Context(), "guest"))
	is(true, "guest", "deleted")
	// Another replica, started since, finds it as well.
	fresh, err := Open(t.Context(), store, Options{})
	fatal(t, err)
	t.Cleanup(fresh.Close)
	if deleted, err := fresh.Deleted(t.Context(), "press-7"); err != nil || !deleted {
		t.Errorf("after a start: deleted %v, %v", deleted, err)
	}
	store.get = func() error { return state.ErrUnavailable }
	if deleted, err := a.Deleted(t.Context(), "press-7"); deleted || !errors.Is(err, ErrUnavailable) {
		t.Errorf("while the store is away: deleted %v, %v, want %v", deleted, err, ErrUnavailable)
	}
	store.get = nil
	add(t, a, Client{ID: "press-7", Workspace: "plant"})
	is(false, "press-7", "made again")
}
