package access

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
)

func TestTokensAreGoodOnEveryReplica(t *testing.T) {
	store := openStore(t)
	one, two := openOn(t, store, Options{}), openOn(t, store, Options{})
	secret := add(t, one, Client{ID: "c", Workspace: "w", Scopes: []string{ScopeRead, ScopeWrite}})
	token, err := one.Token(t.Context(), "c", secret, "", nowhere)
	fatal(t, err)
	if token.Scope != ScopeRead+" "+ScopeWrite {
		t.Errorf("token has the scopes %q", token.Scope)
	}
	g := signIn(t, two, "c", token.AccessToken)
	if !g.Scope(ScopeRead) || !g.Scope(ScopeWrite) || g.Scope(ScopeClients) {
		t.Error("a token with every scope does not grant the client's")
	}
	if bearer := signIn(t, two, "", token.AccessToken); bearer.ClientID() != "c" {
		t.Errorf("a bearer token signs in %q", bearer.ClientID())
	}
	refused(t, two, "d", token.AccessToken, "another client's token")
	add(t, one, Client{ID: "d", Workspace: "w"})
	refused(t, two, "d", token.AccessToken, "another client's token")
}

func TestATokenHasTheScopesItWasIssuedFor(t *testing.T) {
	a := openAccess(t, Options{})
	secret := add(t, a, Client{ID: "c", Workspace: "w", Scopes: []string{ScopeRead, ScopeWrite}})
	token, err := a.Token(t.Context(), "c", secret, " "+ScopeWrite+"  "+ScopeWrite, nowhere)
	fatal(t, err)
	g := signIn(t, a, "c", token.AccessToken)
	if token.Scope != ScopeWrite || !g.Scope(ScopeWrite) || g.Scope(ScopeRead) {
		t.Errorf("token of scope %q", token.Scope)
	}
	for _, scope := range []string{ScopeClients, ScopeRead + " nonsense"} {
		if _, err := a.Token(t.Context(), "c", secret, scope, nowhere); !errors.Is(err, ErrScope) {
			t.Errorf("token for %q: %v, want ErrScope", scope, err)
		}
	}
	if _, err := a.Token(t.Context(), "c", "wrong", ScopeClients, nowhere); !errors.Is(err, ErrRefused) {
		t.Errorf("token for a wrong secret: %v, want ErrRefused", err)
	}
	if _, err := a.Token(t.Context(), "c", token.AccessToken, "", nowhere); !errors.Is(err, ErrRefused) {
		t.Errorf("token for a token: %v, want ErrRefused", err)
	}
}

func TestForgedTokensAreRefused(t *testing.T) {
	a := openAccess(t, Options{Throttle: Throttle{Threshold: -1}})
	secret := add(t, a, Client{ID: "c", Workspace: "w"})
	good, err := a.Token(t.Context(), "c", secret, "", nowhere)
	fatal(t, err)
	parts := strings.Split(good.AccessToken, ".")
	var payload map[string]any
	decodePart(t, parts[1], &payload)
	key := a.tokenKeys.Load().Keys[0]
	sign := func(alg jose.SignatureAlgorithm, with any, kid string, change map[string]any) string {
		all := maps.Clone(payload)
		maps.Copy(all, change)
		options := (&jose.SignerOptions{}).WithType("at+jwt")
		if kid != "" {
			options.WithHeader("kid", kid)
		}
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: with}, options)
		fatal(t, err)
		data, err := json.Marshal(all)
		fatal(t, err)
		signed, err := signer.Sign(data)
		fatal(t, err)
		compact, err := signed.CompactSerialize()
		fatal(t, err)
		return compact
	}
	signIn(t, a, "c", sign(jose.HS256, key.Secret, key.ID, nil)) // the recipe itself is right
	unsigned := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"`+key.ID+`"}`)) + "." + parts[1] + "."
	for why, token := range map[string]string{
		"unsigned":            unsigned,
		"unsigned, old mac":   unsigned + parts[2],
		"other key":           sign(jose.HS256, make([]byte, 32), key.ID, nil),
		"unknown key id":      sign(jose.HS256, key.Secret, "other", nil),
		"no key id":           sign(jose.HS256, key.Secret, "", nil),
		"other algorithm":     sign(jose.HS512, append(key.Secret, key.Secret...), key.ID, nil),
		"expired":             sign(jose.HS256, key.Secret, key.ID, map[string]any{"exp": time.Now().Unix() - 1}),
		"without expiry":      sign(jose.HS256, key.Secret, key.ID, map[string]any{"exp": 0}),
		"other audience":      sign(jose.HS256, key.Secret, key.ID, map[string]any{"aud": "else"}),
		"other issuer":        sign(jose.HS256, key.Secret, key.ID, map[string]any{"iss": "https://elsewhere"}),
		"no issuer":           sign(jose.HS256, key.Secret, key.ID, map[string]any{"iss": ""}),
		"other generation":    sign(jose.HS256, key.Secret, key.ID, map[string]any{"gen": 1}),
		"no such client":      sign(jose.HS256, key.Secret, key.ID, map[string]any{"sub": "x"}),
		"subject no string":   sign(jose.HS256, key.Secret, key.ID, map[string]any{"sub": 7}),
		"changed payload":     parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"`+ownIssuer+`","sub":"c"}`)) + "." + parts[2],
		"cut signature":       good.AccessToken[:len(good.AccessToken)-4],
		"payload not base64":  parts[0] + ".~." + parts[2],
		"payload not JSON":    parts[0] + ".YWJj." + parts[2],
		"header of nothing":   "eyJ9.." + parts[2],
		"three dots":          good.AccessToken + ".x",
		"only dots and a key": "eyJhbGciOiJIUzI1NiJ9..",
	} {
		for _, id := range []string{"c", "", "x"} {
			refused(t, a, id, token, why)
		}
	}
}

func TestASigningKeyComesFromTheStateOnce(t *testing.T) {
	synctest.Test(t, signingKeyComesOnce)
}

func signingKeyComesOnce(t *testing.T) {
	store := openStore(t)
	a := openOn(t, store, Options{})
	first := a.tokenKeys.Load().Keys[0]
	if b := openOn(t, store, Options{}); string(b.tokenKeys.Load().Keys[0].Secret) != string(first.Secret) {
		t.Error("another replica has another key")
	}
	// A key that is put in front signs from then on; the old one still verifies.
	secret := add(t, a, Client{ID: "c", Workspace: "w"})
	old, err := a.Token(t.Context(), "c", secret, "", nowhere)
	fatal(t, err)
	fresh := tokenKey{ID: "fresh", Secret: make([]byte, 32)}
	if _, err := a.bucket.Put(t.Context(), tokenKeyKey, encode(tokenKeys{Keys: []tokenKey{fresh, first}})); err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // the watch has told
	signIn(t, a, "c", old.AccessToken)
	token, err := a.Token(t.Context(), "c", secret, "", nowhere)
	fatal(t, err)
	var header map[string]any
	decodePart(t, strings.Split(token.AccessToken, ".")[0], &header)
	if header["kid"] != "fresh" || header["typ"] != "at+jwt" {
		t.Errorf("header of the new token: %v", header)
	}
	signIn(t, a, "c", token.AccessToken)
}

func decodePart(t *testing.T, part string, into any) {
	t.Helper()
	data, err := base64.RawURLEncoding.DecodeString(part)
	fatal(t, err)
	fatal(t, json.Unmarshal(data, into))
}

func FuzzToken(f *testing.F) {
	a := openAccess(f, Options{Throttle: Throttle{Threshold: -1}, Issuers: []Issuer{{Issuer: "https://login.example", JWKSURL: "http://127.0.0.1:1/keys", Audience: "uns"}}})
	secret := add(f, a, Client{ID: "c", Workspace: "w"})
	token, err := a.Token(f.Context(), "c", secret, "", nowhere)
	fatal(f, err)
	parts := strings.Split(token.AccessToken, ".")
	genuine, err := base64.RawURLEncoding.DecodeString(parts[2])
	fatal(f, err)
	f.Add(parts[0], parts[1], parts[2])
	f.Add("eyJhbGciOiJub25lIn0", parts[1], "")
	f.Add("eyJhbGciOiJSUzI1NiJ9", base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"https://login.example","aud":"uns"}`)), "AAAA")
	f.Fuzz(func(t *testing.T, header, payload, signature string) {
		given := header + "." + payload + "." + signature
		g, err := a.SignIn(t.Context(), "c", []byte(given), nowhere)
		sum, _ := base64.RawURLEncoding.DecodeString(signature)
		if header == parts[0] && payload == parts[1] && string(sum) == string(genuine) {
			return // the same signature, written otherwise
		}
		if g != nil || !errors.Is(err, ErrRefused) && !errors.Is(err, ErrUnavailable) {
			t.Fatalf("a made-up token: grants %v, error %v", g, err)
		}
	})
}
