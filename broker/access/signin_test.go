package access

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestOnlyTheClientsSecretSignsIn(t *testing.T) {
	a := openAccess(t, Options{Throttle: Throttle{Threshold: -1}})
	secret := add(t, a, Client{ID: "press-7", Workspace: "plant", Scopes: []string{ScopeRead}})
	other := add(t, a, Client{ID: "press-8", Workspace: "plant"})
	if len(secret) != 43 || secret == other {
		t.Fatalf("generated secrets %q and %q, want 256 bits each in base64", secret, other)
	}
	g := signIn(t, a, "press-7", secret)
	if g.ClientID() != "press-7" || g.Workspace() != "plant" || !g.Scope(ScopeRead) || g.Scope(ScopeWrite) {
		t.Fatalf("grants %+v", g)
	}
	for why, c := range map[string][2]string{
		"another's secret": {"press-7", other}, "a prefix": {"press-7", secret[:42]}, "more behind": {"press-7", secret + "x"},
		"no secret": {"press-7", ""}, "another's name": {"press-8", secret}, "unknown name": {"press-9", secret}, "no name": {"", secret},
		"impossible name": {"a/b\x00#", secret}, "a long name": {strings.Repeat("x", 70000), secret}, "a huge secret": {"press-7", strings.Repeat("x", 60000)},
		"case": {"Press-7", secret},
	} {
		refused(t, a, c[0], c[1], why)
	}
}

func TestChosenSecretsAreHashedSlowlyAndRecognisedQuickly(t *testing.T) {
	a := openAccess(t, Options{})
	if _, err := a.Add(context.Background(), Client{ID: "c", Workspace: "w"}, "correct horse battery"); err != nil {
		t.Fatal(err)
	}
	c, err := a.Get(context.Background(), "c")
	fatal(t, err)
	if !strings.HasPrefix(c.SecretHash, "$argon2id$") {
		t.Fatalf("a chosen secret is stored as %q", c.SecretHash)
	}
	signIn(t, a, "c", "correct horse battery")
	refused(t, a, "c", "correct horse batterx", "a wrong secret")
	// A secret that was verified before needs no place among the slow hashes: it
	// signs in while all of them are taken.
	for range cap(a.verifier.slots) {
		a.verifier.slots <- struct{}{}
	}
	signIn(t, a, "c", "correct horse battery")
}

func TestWaitingForASlowSecretIsUnavailableNotRefused(t *testing.T) {
	a := openAccess(t, Options{})
	if _, err := a.Add(context.Background(), Client{ID: "c", Workspace: "w"}, "correct horse battery"); err != nil {
		t.Fatal(err)
	}
	for range cap(a.verifier.slots) {
		a.verifier.slots <- struct{}{}
	}
	for _, id := range []string{"c", "nobody"} {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		_, err := a.SignIn(ctx, id, []byte("anything at all"), nowhere)
		cancel()
		if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrRefused) {
			t.Fatalf("sign-in of %q while every slot is taken: %v, want ErrUnavailable", id, err)
		}
	}
}

func TestAnUnreadableStoreIsUnavailable(t *testing.T) {
	f := &faults{Store: openStore(t)}
	a := openOn(t, f, Options{})
	secret := add(t, a, Client{ID: "c", Workspace: "w"})
	g := signIn(t, a, "c", secret)
	f.get = func() error { return context.DeadlineExceeded }
	if _, err := a.SignIn(context.Background(), "c", []byte(secret), nowhere); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("sign-in: %v, want ErrUnavailable", err)
	}
	if _, err := recheck(a, g); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrRefused) {
		t.Fatalf("recheck: %v, want ErrUnavailable", err)
	}
}

func TestSessionsEndWithTheirCredential(t *testing.T) {
	ctx := context.Background()
	ends := map[string]func(a *Access) error{
		"rotated":  func(a *Access) error { _, err := a.Rotate(ctx, "c"); return err },
		"disabled": func(a *Access) error { return a.Disable(ctx, "c") },
		"deleted":  func(a *Access) error { return a.Delete(ctx, "c") },
		"disabled and enabled again": func(a *Access) error {
			return errors.Join(a.Disable(ctx, "c"), a.Enable(ctx, "c"))
		},
		"deleted and made again": func(a *Access) error {
			c, err := a.Get(ctx, "c")
			_, again := a.Add(ctx, Client{ID: "c", Workspace: "w", SecretHash: c.SecretHash}, "")
			if again == nil {
				return errors.New("a client was added twice")
			}
			err = errors.Join(err, a.Delete(ctx, "c"))
			_, again = a.Add(ctx, Client{ID: "c", Workspace: "w", SecretHash: c.SecretHash}, "")
			return errors.Join(err, again)
		},
	}
	for what, end := range ends {
		t.Run(what, func(t *testing.T) {
			a := openAccess(t, Options{})
			secret := add(t, a, Client{ID: "c", Workspace: "w"})
			token, err := a.Token(ctx, "c", secret, "", nowhere)
			fatal(t, err)
			bySecret, byToken := signIn(t, a, "c", secret), signIn(t, a, "c", token.AccessToken)
			for _, g := range []*Grants{bySecret, byToken} {
				if _, err := recheck(a, g); err != nil {
					t.Fatalf("recheck before: %v", err)
				}
			}
			changes := a.OnChange(t.Context())
			fatal(t, end(a))
			if id := <-changes; id != "c" {
				t.Fatalf("change of %q, want c", id)
			}
			for _, g := range []*Grants{bySecret, byToken} {
				if _, err := recheck(a, g); !errors.Is(err, ErrRefused) {
					t.Fatalf("recheck: %v, want ErrRefused", err)
				}
			}
			refused(t, a, "c", token.AccessToken, "a token from before")
		})
	}
}

func TestARecheckGivesTheClientsPresentPermissions(t *testing.T) {
	a := openAccess(t, Options{})
	fatal(t, a.Seed(t.Context(), []byte("clients: [{id: c, secret: 'correct horse', workspace: w, publish: [a]}]")))
	g := signIn(t, a, "c", "correct horse")
	changes := a.OnChange(t.Context())
	fatal(t, a.Seed(t.Context(), []byte("clients: [{id: c, secret: 'correct horse', workspace: w, publish: [b], scopes: ['uns:read']}]")))
	<-changes
	renewed, err := recheck(a, g)
	fatal(t, err)
	if renewed.MayPublish("a") || !renewed.MayPublish("b") || !renewed.Scope(ScopeRead) {
		t.Fatal("the new grants are not the client's present ones")
	}
	if !g.MayPublish("a") || g.MayPublish("b") {
		t.Fatal("the old grants changed")
	}
	fatal(t, a.Seed(t.Context(), []byte("clients: [{id: c, secret: 'correct horse', workspace: elsewhere}]")))
	if _, err := recheck(a, renewed); !errors.Is(err, ErrRefused) {
		t.Fatalf("recheck in another workspace: %v, want ErrRefused", err)
	}
}

func TestGrantsHoldUntilTheirDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := openAccess(t, Options{TokenTTL: 90 * time.Second})
		secret := add(t, a, Client{ID: "c", Workspace: "w"})
		start := time.Now()
		g := signIn(t, a, "c", secret)
		if d := g.Deadline().Sub(start); d != time.Minute {
			t.Fatalf("deadline %v after the sign-in, want 1 min", d)
		}
		token, err := a.Token(t.Context(), "c", secret, "", nowhere)
		fatal(t, err)
		if token.ExpiresIn != 90*time.Second {
			t.Fatalf("token expires in %v", token.ExpiresIn)
		}
		byToken := signIn(t, a, "c", token.AccessToken)
		time.Sleep(60 * time.Second)
		renewed, err := recheck(a, byToken)
		fatal(t, err)
		if d := renewed.Deadline().Sub(start); d != 90*time.Second {
			t.Fatalf("deadline %v after the token was issued, want its expiry", d)
		}
		time.Sleep(30 * time.Second)
		if _, err := recheck(a, renewed); !errors.Is(err, ErrRefused) {
			t.Fatalf("recheck with an expired token: %v, want ErrRefused", err)
		}
		refused(t, a, "c", token.AccessToken, "an expired token")
		if _, err := recheck(a, g); err != nil {
			t.Fatalf("recheck of a secret: %v", err)
		}
		a.Close()
	})
}

func TestNoChangeIsMissedByASlowReader(t *testing.T) {
	a := openAccess(t, Options{})
	changes := a.OnChange(t.Context())
	want := map[string]bool{}
	var wg sync.WaitGroup
	for i := range 100 {
		id := "c" + string(rune('a'+i%26)) + string(rune('a'+i/26))
		want[id] = true
		wg.Go(func() {
			if _, err := a.Add(context.Background(), Client{ID: id, Workspace: "w"}, ""); err != nil {
				t.Error(err)
			}
			if err := a.Disable(context.Background(), id); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for len(want) > 0 {
		delete(want, <-changes)
	}
	a.Close()
	for range changes {
	}
	if _, open := <-a.OnChange(t.Context()); open {
		t.Fatal("OnChange of a closed Access is open")
	}
}

func BenchmarkSignInGeneratedSecret(b *testing.B) {
	a := openAccess(b, Options{})
	secret := []byte(add(b, a, Client{ID: "c", Workspace: "w"}))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.SignIn(context.Background(), "c", secret, nowhere); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSignInToken(b *testing.B) {
	a := openAccess(b, Options{})
	secret := add(b, a, Client{ID: "c", Workspace: "w"})
	token, err := a.Token(context.Background(), "c", secret, "", nowhere)
	fatal(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.SignIn(context.Background(), "c", []byte(token.AccessToken), nowhere); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSignInChosenSecretSeenBefore(b *testing.B) {
	a := openAccess(b, Options{})
	if _, err := a.Add(context.Background(), Client{ID: "c", Workspace: "w"}, "correct horse battery"); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := a.SignIn(context.Background(), "c", []byte("correct horse battery"), nowhere); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkArgon2id(b *testing.B) {
	for b.Loop() {
		slowHash("correct horse battery")
	}
}
