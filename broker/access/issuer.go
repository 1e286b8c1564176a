package access

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

// Issuer is an external issuer of access tokens. A token of it is accepted for
// the API client its claim names, if that client exists here: its grants are
// the client's, never the token's.
type Issuer struct {
	// Issuer is the tokens' "iss", exactly.
	Issuer string
	// JWKSURL is where its public keys are fetched: https, or http on this
	// machine. Empty: found through <Issuer>/.well-known/openid-configuration.
	JWKSURL string
	// Audience must be among a token's "aud".
	Audience string
	// ClientIDClaim names the API client. Empty: client_id.
	ClientIDClaim string
	// Algorithms are the signatures accepted. Empty: RS256, ES256.
	Algorithms []string
	// Client fetches the keys. nil: one of the package's, with a time limit.
	Client *http.Client
}

// asymmetric are the algorithms whose verification key makes no tokens.
var asymmetric = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// issuer verifies the tokens of one external issuer.
type issuer struct {
	Issuer
	keys     *remoteKeys
	verifier *oidc.IDTokenVerifier
}

// newIssuer checks an issuer's configuration.
func newIssuer(i Issuer) (*issuer, error) {
	if i.ClientIDClaim == "" {
		i.ClientIDClaim = "client_id"
	}
	if len(i.Algorithms) == 0 {
		i.Algorithms = []string{"RS256", "ES256"}
	}
	switch {
	case i.Issuer == "" || i.Issuer == ownIssuer:
		return nil, fmt.Errorf("issuer %q: must be the issuer of another service", i.Issuer)
	case i.Audience == "":
		return nil, fmt.Errorf("issuer %q: audience: must be set, or a token made for any other service would be accepted", i.Issuer)
	}
	for _, alg := range i.Algorithms {
		if !slices.Contains(asymmetric, alg) {
			return nil, fmt.Errorf("issuer %q: algorithm %q: allowed are %s", i.Issuer, alg, strings.Join(asymmetric, ", "))
		}
	}
	from := i.JWKSURL
	if from == "" {
		from = i.Issuer
	}
	if err := checkKeyURL(from); err != nil {
		return nil, fmt.Errorf("issuer %q: keys from %q: %w", i.Issuer, from, err)
	}
	keys := newRemoteKeys(i)
	return &issuer{Issuer: i, keys: keys, verifier: oidc.NewVerifier(i.Issuer, keys, &oidc.Config{
		ClientID: i.Audience, SupportedSigningAlgs: i.Algorithms, Now: time.Now,
	})}, nil
}

// checkKeyURL: keys that came in the clear over a network prove nothing.
func checkKeyURL(from string) error {
	u, err := url.Parse(from)
	if err != nil {
		return err
	}
	host := u.Hostname()
	addr, err := netip.ParseAddr(host)
	local := host == "localhost" || err == nil && addr.IsLoopback()
	if u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !local) {
		return errors.New("must be an https URL, or http on this machine")
	}
	return nil
}

// read verifies a token.
func (i *issuer) read(ctx context.Context, token string) (identity, error) {
	var failed error // why the keys could not be had
	verified, err := i.verifier.Verify(context.WithValue(ctx, fetchFailure{}, &failed), token)
	if failed != nil {
		return identity{}, unavailable("fetch the keys of issuer "+i.Issuer.Issuer, failed)
	}
	if err != nil {
		return identity{}, ErrRefused
	}
	var all map[string]any
	if err := verified.Claims(&all); err != nil {
		return identity{}, ErrRefused
	}
	client, _ := all[i.ClientIDClaim].(string)
	if client == "" {
		return identity{}, ErrRefused
	}
	return identity{client: client, expires: verified.Expiry}, nil
}

// defaultClient fetches keys where the issuer's configuration names no client.
func defaultClient() *http.Client {
	return &http.Client{
		Timeout: 5 * time.Second,
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 3 * time.Second}).DialContext,
			TLSHandshakeTimeout:   3 * time.Second,
			ResponseHeaderTimeout: 3 * time.Second,
			IdleConnTimeout:       30 * time.Second,
			MaxIdleConnsPerHost:   1,
		},
		// A key set is where the configuration says, not where an answer points.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
