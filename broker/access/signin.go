package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/netip"
	"slices"
	"time"
)

// credential is what a client signed in with, as far as Renew needs it.
type credential struct {
	kind       kind
	generation uint64    // of the client, not for external tokens
	expires    time.Time // of a token
	scopes     []string  // of an own token
}

type kind uint8

const (
	noCredential kind = iota
	bySecret
	byOwnToken
	byExternalToken
)

// SignIn checks a user name and password. remote is the device's own address, or
// invalid where it is not known. Errors: ErrRefused, ErrThrottled (a
// *ThrottledError), ErrUnavailable.
func (a *Access) SignIn(ctx context.Context, userName string, password []byte, remote netip.Addr) (*Grants, error) {
	return a.signIn(ctx, userName, password, remote, a.load)
}

// lookWait is how long SignInToLook waits for the store.
const lookWait = time.Second

// SignInToLook is SignIn for what only shows how the broker is. While the store does not
// answer, a client counts as it was last known here: that is when somebody has to look.
// One that was disabled or rotated by another replica meanwhile is still let look.
func (a *Access) SignInToLook(ctx context.Context, userName string, password []byte, remote netip.Addr) (*Grants, error) {
	asking, cancel := context.WithTimeout(ctx, lookWait)
	g, err := a.signIn(asking, userName, password, remote, a.load)
	cancel()
	if !errors.Is(err, ErrUnavailable) || ctx.Err() != nil {
		return g, err
	}
	return a.signIn(ctx, userName, password, remote, a.lastKnown)
}

// loader finds an API client; nil if there is none.
type loader func(ctx context.Context, id string) (*known, error)

func (a *Access) signIn(ctx context.Context, userName string, password []byte, remote netip.Addr, load loader) (*Grants, error) {
	asked := time.Now()
	k, c, err := a.authenticate(ctx, userName, password, remote, true, load)
	if err != nil {
		return nil, err
	}
	return a.grants(k, c, asked), nil
}

// Token issues an access token for a client's id and secret. scope is a list
// separated by spaces; empty means all the client has. Errors as of SignIn, and
// ErrScope.
func (a *Access) Token(ctx context.Context, clientID, secret, scope string, remote netip.Addr) (Token, error) {
	k, _, err := a.authenticate(ctx, clientID, []byte(secret), remote, false, a.load)
	if err != nil {
		return Token{}, err
	}
	return a.issue(&k.client, scope)
}

// authenticate is a sign-in with the throttle around it.
func (a *Access) authenticate(ctx context.Context, userName string, password []byte, remote netip.Addr, tokens bool, load loader) (*known, credential, error) {
	name := nameDigest(userName)
	if userName == "" {
		// A bearer token names no user before it is read. Failures count against that
		// token alone: one name for all would let anybody's bad tokens hold off everybody.
		name = nameDigest("token/" + string(password))
	}
	if wait := a.throttle.wait(name, remote); wait > 0 {
		return nil, credential{}, &ThrottledError{RetryAfter: wait}
	}
	var k *known
	var c credential
	var err error
	if tokens && looksLikeToken(password) {
		k, c, err = a.byToken(ctx, userName, string(password), load)
	} else {
		k, c, err = a.bySecret(ctx, userName, string(password), load)
	}
	switch {
	case err == nil:
		a.throttle.succeeded(name, remote)
	case errors.Is(err, ErrRefused):
		a.throttle.failed(name, remote)
	}
	return k, c, err
}

// nameDigest stands for a user name, of whatever length, in the throttle.
func nameDigest(userName string) (d [16]byte) {
	sum := sha256.Sum256([]byte(userName))
	copy(d[:], sum[:])
	return d
}

// bySecret checks a secret. A client there is not, and a disabled one, cost the
// same work as any other.
func (a *Access) bySecret(ctx context.Context, id, secret string, load loader) (*known, credential, error) {
	k, err := load(ctx, id)
	if err != nil {
		return nil, credential{}, err
	}
	if k == nil {
		if err := a.verifier.decoy(ctx, id, secret, a.slowShare()); err != nil {
			return nil, credential{}, err
		}
		return nil, credential{}, ErrRefused
	}
	ok, err := a.verifier.verify(ctx, k.client.SecretHash, secret)
	if err != nil {
		return nil, credential{}, err
	}
	if !ok || k.client.Disabled {
		return nil, credential{}, ErrRefused
	}
	return k, credential{kind: bySecret, generation: k.client.Generation}, nil
}

// byToken checks an access token.
func (a *Access) byToken(ctx context.Context, userName, token string, load loader) (*known, credential, error) {
	who, err := a.readToken(ctx, token)
	if err != nil {
		return nil, credential{}, err
	}
	if userName != "" && userName != who.client {
		return nil, credential{}, ErrRefused
	}
	k, err := load(ctx, who.client)
	if err != nil {
		return nil, credential{}, err
	}
	c := credential{kind: byExternalToken, expires: who.expires}
	if who.own {
		c = credential{kind: byOwnToken, expires: who.expires, generation: who.generation, scopes: who.scopes}
	}
	if k == nil || !c.holds(&k.client) {
		return nil, credential{}, ErrRefused
	}
	return k, c, nil
}

// holds says whether a credential that was verified once is still good.
func (c *credential) holds(client *Client) bool {
	if client.Disabled {
		return false
	}
	if c.kind != byExternalToken && c.generation != client.Generation {
		return false
	}
	return c.kind == bySecret || time.Now().Before(c.expires)
}

// grants are what a credential gives as of when the store was asked: what it was slow to
// answer may have changed meanwhile.
func (a *Access) grants(k *known, c credential, asked time.Time) *Grants {
	g := &Grants{rights: k.rights, credential: c, deadline: asked.Add(a.options.Revocation), scopes: k.rights.scopes}
	if c.kind != bySecret && c.expires.Before(g.deadline) {
		g.deadline = c.expires
	}
	if c.kind == byOwnToken {
		g.scopes = nil
		for _, s := range c.scopes {
			if slices.Contains(k.rights.scopes, s) {
				g.scopes = append(g.scopes, s)
			}
		}
	}
	return g
}

// Standing is an API client as the store had it when it was asked.
type Standing struct {
	access *Access
	known  *known // nil: there is none
	asked  time.Time
}

// Standing asks the store for a client once, for all the grants it has. ErrUnavailable:
// nobody can say now.
func (a *Access) Standing(ctx context.Context, id string) (*Standing, error) {
	asked := time.Now()
	k, err := a.load(ctx, id)
	if err != nil {
		return nil, err
	}
	return &Standing{a, k, asked}, nil
}

// Renew renews grants of the client: the new ones have its present permissions.
// ErrRefused: they hold no longer. Grants without a credential are returned as they are.
func (s *Standing) Renew(g *Grants) (*Grants, error) {
	if g.credential.kind == noCredential {
		return g, nil
	}
	k := s.known
	// A session is bound to its workspace: one moved elsewhere signs in anew.
	if k == nil || !g.credential.holds(&k.client) || k.client.Workspace != g.Workspace() {
		return nil, ErrRefused
	}
	return s.access.grants(k, g.credential, s.asked), nil
}

// Present returns the grants an API client has now, without a credential and so
// without a deadline: for what is published in its name when it is not there, its
// Last Will. Errors: ErrRefused if there is no such client or it is disabled,
// ErrUnavailable.
func (a *Access) Present(ctx context.Context, id string) (*Grants, error) {
	k, err := a.load(ctx, id)
	if err != nil {
		return nil, err
	}
	if k == nil || k.client.Disabled {
		return nil, ErrRefused
	}
	return &Grants{rights: k.rights, scopes: k.rights.scopes}, nil
}
