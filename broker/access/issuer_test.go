package access

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// provider is an issuer on a real local server, whose keys change at will.
type provider struct {
	*httptest.Server
	t *testing.T

	mu      sync.Mutex
	keys    []jose.JSONWebKey
	broken  bool
	fetches int
}

func newProvider(t *testing.T) *provider {
	p := &provider{t: t}
	p.Server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.Close)
	return p
}

func (p *provider) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken {
		http.Error(w, "down", http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		json.NewEncoder(w).Encode(map[string]any{"issuer": p.URL, "jwks_uri": p.URL + "/keys"})
	case "/keys":
		p.fetches++
		set := jose.JSONWebKeySet{}
		for _, k := range p.keys {
			set.Keys = append(set.Keys, k.Public())
		}
		json.NewEncoder(w).Encode(set)
	default:
		http.NotFound(w, r)
	}
}

func (p *provider) set(broken bool, keys ...jose.JSONWebKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken, p.keys = broken, keys
}

func newKey(t *testing.T, id string, alg jose.SignatureAlgorithm) jose.JSONWebKey {
	t.Helper()
	var key crypto.Signer
	var err error
	if alg == jose.ES256 {
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	} else {
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	fatal(t, err)
	return jose.JSONWebKey{Key: key, KeyID: id, Algorithm: string(alg), Use: "sig"}
}

// token makes a token of this issuer for a client.
func (p *provider) token(key jose.JSONWebKey, change map[string]any) string {
	all := map[string]any{"iss": p.URL, "aud": []string{"uns", "other"}, "client_id": "c", "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(all, change)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(key.Algorithm), Key: key}, nil)
	fatal(p.t, err)
	data, err := json.Marshal(all)
	fatal(p.t, err)
	signed, err := signer.Sign(data)
	fatal(p.t, err)
	compact, err := signed.CompactSerialize()
	fatal(p.t, err)
	return compact
}

func (p *provider) access(change func(i *Issuer)) *Access {
	i := Issuer{Issuer: p.URL, JWKSURL: p.URL + "/keys", Audience: "uns"}
	if change != nil {
		change(&i)
	}
	a := openAccess(p.t, Options{Issuers: []Issuer{i}, Throttle: Throttle{Threshold: -1}})
	add(p.t, a, Client{ID: "c", Workspace: "w", Scopes: []string{ScopeRead}})
	return a
}

// tried signs in with a key that has to be fetched. go-oidc answers from a fetch
// that has just ended for as long as its goroutine has not cleaned up, so a refusal
// is tried again.
func (p *provider) tried(a *Access, key jose.JSONWebKey) error {
	token := []byte(p.token(key, nil))
	deadline := time.Now().Add(10 * time.Second)
	for {
		_, err := a.SignIn(p.t.Context(), "c", token, nowhere)
		if !errors.Is(err, ErrRefused) || time.Now().After(deadline) {
			return err
		}
		runtime.Gosched()
	}
}

func TestTokensOfExternalIssuers(t *testing.T) {
	p := newProvider(t)
	one, ec := newKey(t, "one", jose.RS256), newKey(t, "ec", jose.ES256)
	p.set(false, one, ec)
	a := p.access(nil)
	g := signIn(t, a, "c", p.token(one, nil))
	if g.ClientID() != "c" || !g.Scope(ScopeRead) {
		t.Errorf("grants %+v", g)
	}
	signIn(t, a, "c", p.token(ec, nil))
	signIn(t, a, "", p.token(ec, nil))
	if d := time.Until(signIn(t, a, "c", p.token(one, map[string]any{"exp": time.Now().Add(20 * time.Second).Unix()})).Deadline()); d > 20*time.Second {
		t.Errorf("deadline in %v, want the token's expiry", d)
	}
	ps := one
	ps.Algorithm = "PS256"
	stranger := newKey(t, "one", jose.RS256)
	for why, token := range map[string]string{
		"other audience":   p.token(one, map[string]any{"aud": "other"}),
		"other issuer":     p.token(one, map[string]any{"iss": "https://elsewhere"}),
		"expired":          p.token(one, map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}),
		"without expiry":   p.token(one, map[string]any{"exp": nil}),
		"not yet valid":    p.token(one, map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}),
		"unknown client":   p.token(one, map[string]any{"client_id": "x"}),
		"no client":        p.token(one, map[string]any{"client_id": nil}),
		"client no string": p.token(one, map[string]any{"client_id": 7}),
		"other algorithm":  p.token(ps, nil),
		"stranger's key":   p.token(stranger, nil),
		"its own as HMAC":  p.token(jose.JSONWebKey{Key: []byte(strings.Repeat("x", 32)), KeyID: "one", Algorithm: "HS256"}, nil),
	} {
		refused(t, a, "c", token, why)
	}
	refused(t, a, "d", p.token(one, nil), "another user name")
	fatal(t, a.Disable(t.Context(), "c"))
	refused(t, a, "c", p.token(one, nil), "a disabled client")
}

func TestOtherClaimAndDiscovery(t *testing.T) {
	p := newProvider(t)
	key := newKey(t, "k", jose.ES256)
	p.set(false, key)
	a := p.access(func(i *Issuer) { i.JWKSURL, i.ClientIDClaim, i.Algorithms = "", "azp", []string{"ES256"} })
	signIn(t, a, "c", p.token(key, map[string]any{"azp": "c", "client_id": nil}))
	refused(t, a, "c", p.token(key, nil), "the claim is another one")
}

func TestKeysThatCannotBeFetchedAreAnOutage(t *testing.T) {
	p := newProvider(t)
	key := newKey(t, "k", jose.ES256)
	for what, url := range map[string]string{"configured": p.URL + "/keys", "discovered": ""} {
		t.Run(what, func(t *testing.T) {
			p.set(true, key)
			a := p.access(func(i *Issuer) { i.JWKSURL = url })
			token := p.token(key, nil)
			if _, err := a.SignIn(t.Context(), "c", []byte(token), nowhere); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrRefused) {
				t.Fatalf("sign-in while the issuer is down: %v, want ErrUnavailable", err)
			}
			p.set(false, key)
			signIn(t, a, "c", token)
			// Known keys go on without the issuer, an unknown one does not.
			p.set(true)
			signIn(t, a, "c", token)
			if err := p.tried(a, newKey(t, "other", jose.ES256)); !errors.Is(err, ErrUnavailable) {
				t.Fatalf("sign-in with an unknown key while the issuer is down: %v, want ErrUnavailable", err)
			}
		})
	}
}

func TestRotatedKeysAreFollowed(t *testing.T) {
	p := newProvider(t)
	one, two := newKey(t, "one", jose.ES256), newKey(t, "two", jose.ES256)
	p.set(false, one)
	a := p.access(nil)
	signIn(t, a, "c", p.token(one, nil))
	p.set(false, one, two)
	fatal(t, p.tried(a, two))
	signIn(t, a, "c", p.token(one, nil))
	p.set(false, two)
	signIn(t, a, "c", p.token(two, nil))
}

func TestAStrangerCannotMakeUsFetchWithoutEnd(t *testing.T) {
	p := newProvider(t)
	key := newKey(t, "k", jose.ES256)
	p.set(false, key)
	a := p.access(nil)
	signIn(t, a, "c", p.token(key, nil))
	for range 100 {
		refused(t, a, "c", p.token(newKey(t, "made-up", jose.ES256), nil), "a made-up key")
	}
	p.mu.Lock()
	fetches := p.fetches
	p.mu.Unlock()
	if fetches > fetchBurst+2 {
		t.Fatalf("100 tokens of unknown keys made %d fetches", fetches)
	}
	signIn(t, a, "c", p.token(key, nil))
}

// TestWithdrawnKeysAgeOut runs in virtual time, with the provider called directly
// instead of over a socket.
func TestWithdrawnKeysAgeOut(t *testing.T) {
	one, two := newKey(t, "one", jose.ES256), newKey(t, "two", jose.ES256)
	synctest.Test(t, func(t *testing.T) {
		p := &provider{t: t, Server: &httptest.Server{URL: "https://login.example"}}
		p.set(false, one, two)
		a := p.access(func(i *Issuer) { i.Client = &http.Client{Transport: direct{p}} })
		good := func(key jose.JSONWebKey) error {
			_, err := a.SignIn(t.Context(), "c", []byte(p.token(key, nil)), nowhere)
			return err
		}
		fatal(t, good(one))
		p.set(false, two)
		time.Sleep(keysFresh - time.Second)
		fatal(t, good(one))
		time.Sleep(2 * time.Second)
		if err := good(one); !errors.Is(err, ErrRefused) {
			t.Fatalf("a key withdrawn %v ago: %v, want ErrRefused", keysFresh, err)
		}
		fatal(t, good(two))
		// While the issuer is down its last keys serve on, but not for good.
		p.set(true)
		time.Sleep(keysUsable - time.Minute)
		fatal(t, good(two))
		time.Sleep(2 * time.Minute)
		if err := good(two); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("keys of more than %v ago: %v, want ErrUnavailable", keysUsable, err)
		}
		p.set(false, two)
		time.Sleep(time.Minute)
		fatal(t, good(two))
		a.Close()
	})
}

type direct struct{ p *provider }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.p.serve(w, r)
	return w.Result(), nil
}

func TestIssuersThatProveNothingAreRefused(t *testing.T) {
	good := Issuer{Issuer: "https://login.example", Audience: "uns"}
	for what, change := range map[string]func(i *Issuer){
		"issuer":      func(i *Issuer) { i.Issuer = "" },
		"another":     func(i *Issuer) { i.Issuer = ownIssuer },
		"audience":    func(i *Issuer) { i.Audience = "" },
		"HS256":       func(i *Issuer) { i.Algorithms = []string{"HS256"} },
		"none":        func(i *Issuer) { i.Algorithms = []string{"ES256", "none"} },
		"http://far":  func(i *Issuer) { i.JWKSURL = "http://far.example/keys" },
		"file:///x":   func(i *Issuer) { i.JWKSURL = "file:///x" },
		"http://here": func(i *Issuer) { i.Issuer = "http://here.example" },
	} {
		i := good
		change(&i)
		if _, err := Open(context.Background(), openStore(t), Options{Issuers: []Issuer{i}}); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v, want an error that says so", what, err)
		}
	}
	if _, err := Open(context.Background(), openStore(t), Options{Issuers: []Issuer{good, good}}); err == nil {
		t.Error("an issuer was taken twice")
	}
	openAccess(t, Options{Issuers: []Issuer{good, {Issuer: "http://localhost:8081", Audience: "uns"}}})
}
