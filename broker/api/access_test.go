package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"maestrohub.io/uns/broker/access"
)

func clientOf(id, workspace string, publish []string, scopes ...string) access.Client {
	return access.Client{ID: id, Workspace: workspace, Publish: publish, Subscribe: []string{"#"}, Scopes: scopes}
}

const formType = "application/x-www-form-urlencoded"

func (r *rig) token(as credential, form url.Values) answer {
	return r.call(as, "POST", "/api/v1/oauth2/token", formType, form.Encode())
}

func TestATokenIsIssuedToBasicAndToBodyCredentialsAndOpensTheAPI(t *testing.T) {
	r := newRig(t)
	c := r.client("press", "plant", ScopeRead, ScopeSettings)
	for name, a := range map[string]answer{
		"Basic":                r.token(c, url.Values{"grant_type": {"client_credentials"}}),
		"body":                 r.token(anonymous{}, url.Values{"grant_type": {"client_credentials"}, "client_id": {c.id}, "client_secret": {c.secret}}),
		"both name the client": r.token(c, url.Values{"grant_type": {"client_credentials"}, "client_id": {c.id}}),
	} {
		var token tokenResponse
		if a.into(t, &token); a.status != 200 || token.AccessToken == "" || token.TokenType != "Bearer" || token.ExpiresIn != 3600 {
			t.Fatalf("%s: %d %s, want a bearer token for an hour", name, a.status, a.body)
		}
		if got := a.header.Get("Cache-Control"); got != "no-store" {
			t.Errorf("%s: Cache-Control %q, want no-store", name, got)
		}
		if a := r.get(bearer(token.AccessToken), "/api/v1/uns/plant/history"); a.status != 200 {
			t.Errorf("%s: history with the token: %d %s", name, a.status, a.body)
		}
	}
}

func TestATokenHasOnlyTheScopesItWasAskedFor(t *testing.T) {
	r := newRig(t)
	c := r.client("press", "plant", ScopeRead, ScopeSettings)
	var token tokenResponse
	r.token(c, url.Values{"grant_type": {"client_credentials"}, "scope": {ScopeRead}}).into(t, &token)
	if token.Scope != ScopeRead {
		t.Fatalf("scope %q, want %q", token.Scope, ScopeRead)
	}
	if a := r.get(bearer(token.AccessToken), "/api/v1/uns/plant/history"); a.status != 200 {
		t.Errorf("history: %d %s", a.status, a.body)
	}
	r.get(bearer(token.AccessToken), "/api/v1/system/uns/settings/status").want(t, 403, codeScope, ScopeSettings)
}

func TestTheTokenEndpointRefusesAsTheRFCSays(t *testing.T) {
	r := newRig(t)
	c := r.client("press", "plant", ScopeRead)
	grant := "grant_type=client_credentials"
	cases := []struct {
		name, contentType, body string
		as                      credential
		status                  int
		code                    string
	}{
		{"no form", "application/json", `{}`, c, 400, invalidRequest},
		{"no grant type", formType, "scope=uns:read", c, 400, invalidRequest},
		{"other grant type", formType, "grant_type=password", c, 400, unsupportedGrantType},
		{"twice", formType, grant + "&" + grant, c, 400, invalidRequest},
		{"bad escape", formType, grant + "&scope=%zz", c, 400, invalidRequest},
		{"too large", formType, grant + "&x=" + strings.Repeat("a", maxBodyBytes), c, 400, invalidRequest},
		{"credentials twice", formType, grant + "&client_id=press&client_secret=" + c.secret, c, 400, invalidRequest},
		{"another id", formType, grant + "&client_id=else", c, 400, invalidRequest},
		{"scope it lacks", formType, grant + "&scope=uns:read+uns:write", c, 400, invalidScope},
		{"none", formType, grant, anonymous{}, 401, invalidClient},
		{"wrong secret", formType, grant, basic{"press", "wrong"}, 401, invalidClient},
		{"unknown client", formType, grant, basic{"nobody", "wrong"}, 401, invalidClient},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			a := r.call(k.as, "POST", "/api/v1/oauth2/token", k.contentType, k.body)
			var e tokenError
			if a.into(t, &e); a.status != k.status || e.Error != k.code || e.Description == "" {
				t.Fatalf("answer %d %s, want %d %s", a.status, a.body, k.status, k.code)
			}
			if a.header.Get("Cache-Control") != "no-store" {
				t.Error("no Cache-Control: no-store")
			}
			if (a.status == 401) != strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Basic ") {
				t.Errorf("WWW-Authenticate %q with a %d", a.header.Get("WWW-Authenticate"), a.status)
			}
		})
	}
	var lacks tokenError
	a := r.call(c, "POST", "/api/v1/oauth2/token", formType, grant+"&scope=uns:write+%22%0a%5c")
	if a.into(t, &lacks); lacks.Description != "the client does not have every scope it asks for: uns:write " {
		t.Errorf("a scope it lacks: %q; a description has no quote, backslash or control character", lacks.Description)
	}
	wrong := r.token(basic{"press", "wrong"}, url.Values{"grant_type": {"client_credentials"}})
	unknown := r.token(basic{"nobody", "wrong"}, url.Values{"grant_type": {"client_credentials"}})
	if string(wrong.body) != string(unknown.body) {
		t.Errorf("a wrong secret and an unknown client are told apart: %s and %s", wrong.body, unknown.body)
	}
}

func TestEveryRouteWithAScopeIsClosedWithoutACredentialAndWithoutTheScope(t *testing.T) {
	r := newRig(t)
	none := r.client("none", "plant")
	for i, row := range New(r.options).routes() {
		if row.scope == "" {
			continue
		}
		path := strings.NewReplacer("{workspace}", "plant", "{id}", "none").Replace(row.path)
		// Names of their own, so that the throttle on failures is not met.
		disabled := r.client(fmt.Sprintf("disabled%d", i), "plant", Scopes...)
		fatal(t, r.access.Disable(t.Context(), disabled.id))
		for name, as := range map[string]credential{"no credential": anonymous{}, "wrong secret": basic{r.client(fmt.Sprintf("other%d", i), "plant", Scopes...).id, "x"},
			"unknown client": basic{fmt.Sprintf("unknown%d", i), "x"}, "disabled": disabled, "no token": bearer("")} {
			a := r.call(as, row.method, path, "application/json", "{}")
			if a.want(t, 401, codeUnauthorized); len(a.header.Values("WWW-Authenticate")) != 2 {
				t.Errorf("%s %s with %s: WWW-Authenticate %q, want Basic and Bearer", row.method, path, name, a.header.Values("WWW-Authenticate"))
			}
		}
		r.call(none, row.method, path, "application/json", "{}").want(t, 403, codeScope, row.scope, "none")
	}
	r.get(bearer("x.y.z"), "/api/v1/uns/plant/history").want(t, 401, codeUnauthorized)
}

func TestACredentialOpensItsOwnWorkspaceOnly(t *testing.T) {
	r := newRig(t)
	c := r.client("press", "plant", Scopes...)
	for _, path := range []string{"history", "retained", "rejects", "connections"} {
		r.get(c, "/api/v1/uns/other/"+path).want(t, 403, codeWorkspace, "other", "plant")
		r.get(c, "/api/v1/uns/nowhere/"+path).want(t, 403, codeWorkspace, "nowhere", "plant")
	}
	r.post(c, "/api/v1/uns/other/values", `{"values": [{"topic": "a", "value": 1}]}`).want(t, 403, codeWorkspace)
}

func TestFailedSignInsAreThrottledWithARetryAfter(t *testing.T) {
	r := newRig(t)
	c := r.client("press", "plant", ScopeRead)
	var a answer
	for range 50 {
		if a = r.get(basic{"press", "wrong"}, "/api/v1/uns/plant/history"); a.status != 401 {
			break
		}
	}
	a.want(t, http.StatusTooManyRequests, codeThrottled)
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After with a 429")
	}
	token := r.token(c, url.Values{"grant_type": {"client_credentials"}})
	var e tokenError
	if token.into(t, &e); token.status != 429 || e.Error != temporarilyUnavailable || token.header.Get("Retry-After") == "" {
		t.Errorf("token endpoint: %d %s, want 429 with Retry-After", token.status, token.body)
	}
}

func TestASecretNeverComesBackAfterItWasShown(t *testing.T) {
	r := newRig(t)
	admin := r.client("admin", "plant", Scopes...)
	a := r.post(admin, "/api/v1/api-clients", `{"id": "new"}`)
	var made ClientSecret
	a.into(t, &made)
	stored, err := r.access.Get(t.Context(), "new")
	fatal(t, err)
	for _, path := range []string{"/api/v1/api-clients", "/api/v1/api-clients/new"} {
		body := string(r.get(admin, path).body)
		if strings.Contains(body, made.Secret) || strings.Contains(body, stored.SecretHash) {
			t.Errorf("%s shows the secret or its hash: %s", path, body)
		}
	}
	if !json.Valid(a.body) || len(made.Secret) < 43 {
		t.Errorf("secret %q, want at least 256 bits", made.Secret)
	}
}
