package api

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/broker/topic"
)

const (
	realm = "maestrohub"
	// retrySoon is the Retry-After of an outage whose end nobody knows.
	retrySoon = 5 * time.Second
)

// caller is who a request comes from: an API client, or the operator of the
// machine, who has every scope and no workspace.
type caller struct {
	grants   *access.Grants
	operator bool
}

func (c caller) has(scope string) bool { return c.operator || c.grants.Scope(scope) }

// seesAll says whether what concerns other clients of the workspace is shown.
func (c caller) seesAll() bool { return c.has(ScopeSettings) }

func (c caller) id() string {
	if c.operator {
		return ""
	}
	return c.grants.ClientID()
}

// workspace is the caller's own, "" for the operator.
func (c caller) workspace() string {
	if c.operator {
		return ""
	}
	return c.grants.Workspace()
}

// inWorkspace returns the workspace of the path, which must be the caller's own.
// Another one is refused in the same words whether it exists or not.
func (c caller) inWorkspace(r *http.Request) (string, *refusal) {
	asked := r.PathValue("workspace")
	if asked != c.workspace() {
		return "", refuse(http.StatusForbidden, codeWorkspace, "workspace %q: the client %q belongs to workspace %q only", asked, c.id(), c.workspace())
	}
	return asked, nil
}

// visible returns whether the caller may read a topic below the workspace.
func (c caller) visible(g topic.Grammar, workspace string) func(string) bool {
	return func(below string) bool { return c.grants.MayRead(g.Data(workspace, below)) }
}

// signedIn wraps a route's handler with the sign-in, the scope it needs and the
// caller's share of the places.
func (a *API) signedIn(route route) http.HandlerFunc {
	scope := route.scope
	return func(w http.ResponseWriter, r *http.Request) {
		grants, refused := a.signIn(r, route.look)
		if refused == nil && !grants.Scope(scope) && !(scope == ScopeClients && grants.Scope(ScopeAllClients)) {
			refused = refuse(http.StatusForbidden, codeScope, "the client %q lacks the scope %s", grants.ClientID(), scope)
		}
		if refused == nil {
			refused = a.shared(route, w, r, caller{grants: grants})
		}
		if refused != nil {
			if refused.status == http.StatusUnauthorized {
				w.Header().Add("WWW-Authenticate", `Basic realm="`+realm+`", charset="UTF-8"`)
				w.Header().Add("WWW-Authenticate", `Bearer realm="`+realm+`"`)
			}
			refused.write(w)
		}
	}
}

// shared handles a request within its caller's shares.
func (a *API) shared(route route, w http.ResponseWriter, r *http.Request, c caller) *refusal {
	free, refused := a.requests.take(c)
	if refused != nil {
		return refused
	}
	defer free()
	if route.heavy {
		free, refused := a.heavy.take(c)
		if refused != nil {
			return refused
		}
		defer free()
	}
	return route.handler(w, r, c)
}

// signIn checks the credential as a CONNECT's: a bearer token is the password of
// the client it names.
func (a *API) signIn(r *http.Request, look bool) (*access.Grants, *refusal) {
	id, secret, basic := r.BasicAuth()
	if !basic {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "bearer") || token == "" {
			return nil, refuse(http.StatusUnauthorized, codeUnauthorized, "no credential; send HTTP Basic (client id and secret) or a bearer token of /api/v1/oauth2/token")
		}
		id, secret = "", strings.TrimSpace(token)
	}
	ctx, cancel := context.WithTimeout(r.Context(), signInBound)
	defer cancel()
	signIn := a.o.Access.SignIn
	if look {
		signIn = a.o.Access.SignInToLook
	}
	grants, err := signIn(ctx, id, []byte(secret), a.remote(r))
	var throttled *access.ThrottledError
	if err != nil {
		a.countFailure(err)
	}
	switch {
	case err == nil:
		return grants, nil
	case errors.As(err, &throttled):
		return nil, refuse(http.StatusTooManyRequests, codeThrottled, "too many failed sign-ins; wait as Retry-After says").after(throttled.RetryAfter)
	case errors.Is(err, access.ErrRefused):
		return nil, refuse(http.StatusUnauthorized, codeUnauthorized, "the credential is not valid")
	}
	a.o.Log.Warn("credentials cannot be checked", "error", err)
	return nil, refuse(http.StatusServiceUnavailable, codeUnavailable, "credentials cannot be checked now").after(retrySoon)
}

func (a *API) countFailure(err error) {
	reason := "unavailable"
	switch {
	case errors.Is(err, access.ErrThrottled):
		reason = "throttled"
	case errors.Is(err, access.ErrRefused):
		reason = "refused"
	}
	a.o.Metrics.SignInFailures.WithLabelValues(reason).Inc()
}

// remote is the client's own address, or the invalid one where the configuration
// does not say that the socket's peer is the client: a throttle on a proxy's
// address would lock everybody out.
func (a *API) remote(r *http.Request) netip.Addr {
	if !a.o.TrustClientAddresses {
		return netip.Addr{}
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return peer.Addr().Unmap()
}
