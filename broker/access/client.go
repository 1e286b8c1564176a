package access

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"maestrohub.io/uns/broker/topic"
)

// The scopes of the REST API.
const (
	ScopeRead       = "uns:read"               // read history and retained values
	ScopeWrite      = "uns:write"              // write values
	ScopeSettings   = "uns_settings:update"    // see status and settings
	ScopeClients    = "api_clients:manage"     // manage the own workspace's API clients
	ScopeAllClients = "api_clients:manage:all" // manage those of every workspace
)

// scopes are all there are.
var scopes = []string{ScopeRead, ScopeWrite, ScopeSettings, ScopeClients, ScopeAllClients}

// maxFilters bounds each list of filters of a client, maxFilterBytes each filter.
const (
	maxNameBytes   = 128
	maxFilters     = 1000
	maxFilterBytes = 1024
)

// Client is an API client: what a device signs in as.
type Client struct {
	// ID is the MQTT user name and the name of the client's inbox: 1 to 128
	// bytes, no spaces, control characters, "/", "+" or "#".
	ID string
	// Workspace is the slug of the one workspace the client belongs to.
	Workspace string
	// Publish are filters on the topic below the client's inbox, Subscribe on
	// what it may read: each is matched against the full name and against the
	// part below <version>/<workspace>/. nil means everything, as "#" does; an
	// empty list means nothing.
	Publish, Subscribe []string
	// Scopes are what it may do over REST.
	Scopes []string
	// Disabled clients are refused like unknown ones.
	Disabled bool
	// SecretHash is the stored form of the secret.
	SecretHash string `json:"-"`
	// Generation changes, at random, whenever what was signed in or issued
	// before must no longer hold: on Rotate, Disable and a new secret.
	Generation uint64
	// Created and Changed are when the client was added and last changed.
	Created, Changed time.Time
}

// complete fills in what absent lists mean.
func (c *Client) complete() {
	if c.Publish == nil {
		c.Publish = []string{"#"}
	}
	if c.Subscribe == nil {
		c.Subscribe = []string{"#"}
	}
	if c.Scopes == nil {
		c.Scopes = []string{}
	}
}

// check returns everything that is wrong with the client but its secret; each
// error wraps ErrInvalid.
func (c *Client) check() error {
	var all []error
	add := func(key string, err error) {
		if err != nil {
			all = append(all, fmt.Errorf("%w: %s: %w", ErrInvalid, key, err))
		}
	}
	add("id", checkName(c.ID))
	add("workspace", checkName(c.Workspace))
	for _, list := range []struct {
		key     string
		filters []string
	}{{"publish", c.Publish}, {"subscribe", c.Subscribe}} {
		if len(list.filters) > maxFilters {
			add(list.key, fmt.Errorf("%d filters: allowed are %d", len(list.filters), maxFilters))
			continue
		}
		for i, f := range list.filters {
			add(fmt.Sprintf("%s[%d]", list.key, i), checkFilter(f))
		}
	}
	for i, s := range c.Scopes {
		add(fmt.Sprintf("scopes[%d]", i), checkScope(s))
	}
	return errors.Join(all...)
}

// checkName says why s cannot be a client's id or a workspace's slug, each of
// which is one level of topic names.
func checkName(s string) error {
	switch {
	case s == "":
		return errors.New("missing")
	case len(s) > maxNameBytes:
		return fmt.Errorf("has %d bytes: allowed are %d", len(s), maxNameBytes)
	case !utf8.ValidString(s):
		return fmt.Errorf("%q is not UTF-8", s)
	}
	for _, r := range s {
		if r == '/' || r == '+' || r == '#' || unicode.IsSpace(r) || unicode.IsControl(r) || !unicode.IsPrint(r) {
			return fmt.Errorf("%q holds %q: it is a level of topic names, without spaces, control characters, \"/\", \"+\" and \"#\"", s, r)
		}
	}
	return nil
}

func checkFilter(f string) error {
	if len(f) > maxFilterBytes {
		return fmt.Errorf("has %d bytes: allowed are %d", len(f), maxFilterBytes)
	}
	if strings.HasPrefix(f, "$share/") {
		return fmt.Errorf("%q is a shared subscription: grant the filter behind the group", f)
	}
	return topic.ValidateFilter(f)
}

func checkScope(s string) error {
	if !slices.Contains(scopes, s) {
		return fmt.Errorf("%q is none of %s", s, strings.Join(scopes, ", "))
	}
	return nil
}
