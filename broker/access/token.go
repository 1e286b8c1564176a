package access

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"maestrohub.io/uns/broker/state"
)

const (
	// ownIssuer is the "iss" and "aud" of the tokens issued here.
	ownIssuer = "urn:maestrohub:uns"
	// maxTokenBytes bounds what is looked at.
	maxTokenBytes = 16 << 10
)

// Token is an access token and what OAuth2 says beside it.
type Token struct {
	AccessToken string
	ExpiresIn   time.Duration
	Scope       string // granted scopes, separated by spaces
}

// claims are those of the tokens issued here, as RFC 9068 has them, and the
// client's generation.
type claims struct {
	Issuer     string `json:"iss"`
	Audience   string `json:"aud"`
	Subject    string `json:"sub"`
	ClientID   string `json:"client_id"`
	Issued     int64  `json:"iat"`
	Expires    int64  `json:"exp"`
	ID         string `json:"jti"`
	Scope      string `json:"scope"`
	Generation uint64 `json:"gen"`
}

// tokenKey is a key that signs access tokens, in the shared state. The first
// signs; all verify.
type tokenKey struct {
	ID      string    `json:"id"`
	Secret  []byte    `json:"secret"` // 32 bytes
	Created time.Time `json:"created"`
}

type tokenKeys struct {
	Keys []tokenKey `json:"keys"`
}

func decodeTokenKeys(data []byte) (*tokenKeys, error) {
	var k tokenKeys
	if err := decode(data, &k); err != nil {
		return nil, fmt.Errorf("token key: %w", err)
	}
	if len(k.Keys) == 0 {
		return nil, fmt.Errorf("token key: %w: none in it", errRecord)
	}
	for _, key := range k.Keys {
		if key.ID == "" || len(key.Secret) != 32 {
			return nil, fmt.Errorf("token key: %w: %q has %d bytes, not 32", errRecord, key.ID, len(key.Secret))
		}
	}
	return &k, nil
}

// openTokenKeys reads the keys, making the first one if there is none.
func (a *Access) openTokenKeys(ctx context.Context) error {
	for {
		record, err := a.bucket.Get(ctx, tokenKeyKey)
		if err == nil {
			k, err := decodeTokenKeys(record.Value)
			if err != nil {
				return err
			}
			a.tokenKeys.Store(k)
			return nil
		}
		if !errors.Is(err, state.ErrNotFound) {
			return fmt.Errorf("read token key: %w", err)
		}
		fresh := tokenKey{ID: randomID(), Secret: make([]byte, 32), Created: time.Now().UTC()}
		rand.Read(fresh.Secret)
		_, err = a.bucket.Create(ctx, tokenKeyKey, encode(tokenKeys{Keys: []tokenKey{fresh}}))
		if err != nil && !errors.Is(err, state.ErrConflict) && !errors.Is(err, state.ErrUnknown) {
			return fmt.Errorf("create token key: %w", err)
		}
	}
}

func randomID() string {
	var b [12]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// issue makes a token for a client whose secret was checked.
func (a *Access) issue(c *Client, scope string) (Token, error) {
	granted := c.Scopes
	if asked := strings.Fields(scope); len(asked) > 0 {
		for _, s := range asked {
			if !slices.Contains(c.Scopes, s) {
				return Token{}, fmt.Errorf("%w: %q", ErrScope, s)
			}
		}
		slices.Sort(asked)
		granted = slices.Compact(asked)
	}
	now := time.Now()
	payload, err := json.Marshal(claims{
		Issuer: ownIssuer, Audience: ownIssuer, Subject: c.ID, ClientID: c.ID, ID: randomID(), Generation: c.Generation,
		Issued: now.Unix(), Expires: now.Add(a.options.TokenTTL).Unix(), Scope: strings.Join(granted, " "),
	})
	if err != nil {
		return Token{}, fmt.Errorf("encode token: %w", err)
	}
	key := a.tokenKeys.Load().Keys[0]
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: key.Secret},
		(&jose.SignerOptions{}).WithType("at+jwt").WithHeader("kid", key.ID))
	if err != nil {
		return Token{}, fmt.Errorf("sign token: %w", err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return Token{}, fmt.Errorf("sign token: %w", err)
	}
	compact, err := signed.CompactSerialize()
	if err != nil {
		return Token{}, fmt.Errorf("sign token: %w", err)
	}
	return Token{AccessToken: compact, ExpiresIn: a.options.TokenTTL, Scope: strings.Join(granted, " ")}, nil
}

// looksLikeToken says whether a password is to be read as an access token: three
// parts, the first a JSON object in base64. No generated secret has a dot.
func looksLikeToken(password []byte) bool {
	if len(password) > maxTokenBytes || !bytes.HasPrefix(password, []byte("eyJ")) || bytes.Count(password, []byte(".")) != 2 {
		return false
	}
	head, _, _ := bytes.Cut(password, []byte("."))
	header := make([]byte, base64.RawURLEncoding.DecodedLen(len(head)))
	_, err := base64.RawURLEncoding.Decode(header, head)
	return err == nil && json.Valid(header)
}

// identity is what a token says, once it was verified.
type identity struct {
	client  string
	expires time.Time
	// own tokens name the client's generation and the scopes they were issued
	// for; external ones have all of the client's.
	own        bool
	generation uint64
	scopes     []string
}

// readToken verifies a token, by the issuer it names. ErrRefused, or
// ErrUnavailable if an issuer's keys cannot be had.
func (a *Access) readToken(ctx context.Context, token string) (identity, error) {
	issuer, err := unverifiedIssuer(token)
	if err != nil {
		return identity{}, ErrRefused
	}
	if issuer == ownIssuer {
		return a.readOwn(token)
	}
	external := a.issuers[issuer]
	if external == nil {
		return identity{}, ErrRefused
	}
	return external.read(ctx, token)
}

// unverifiedIssuer says who claims to have issued a token, to choose who verifies.
func unverifiedIssuer(token string) (string, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", ErrRefused
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return "", err
	}
	var c struct {
		Issuer string `json:"iss"`
	}
	err = json.Unmarshal(payload, &c)
	return c.Issuer, err
}

// readOwn verifies a token issued here or by another replica.
func (a *Access) readOwn(token string) (identity, error) {
	signed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.HS256})
	if err != nil {
		return identity{}, ErrRefused
	}
	for _, key := range a.tokenKeys.Load().Keys {
		if signed.Headers[0].KeyID != key.ID {
			continue
		}
		var c claims
		if err := signed.Claims(key.Secret, &c); err != nil {
			return identity{}, ErrRefused
		}
		id := identity{client: c.Subject, expires: time.Unix(c.Expires, 0), own: true, generation: c.Generation, scopes: strings.Fields(c.Scope)}
		if c.Issuer != ownIssuer || c.Audience != ownIssuer || !time.Now().Before(id.expires) {
			return identity{}, ErrRefused
		}
		return id, nil
	}
	return identity{}, ErrRefused
}
