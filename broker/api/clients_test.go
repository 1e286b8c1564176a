package api

import (
	"net/http"
	"testing"
)

const clientsRoute = "/api/v1/api-clients"

func ids(t *testing.T, a answer) (all []string) {
	t.Helper()
	var body struct{ Clients []Client }
	a.into(t, &body)
	for _, c := range body.Clients {
		all = append(all, c.ID)
	}
	return all
}

func same(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestAnAPIClientLivesFromAddToDelete(t *testing.T) {
	r := newRig(t)
	admin := r.client("admin", "plant", ScopeClients, ScopeRead)
	a := r.post(admin, clientsRoute, `{"id": "press?7", "subscribe": [], "scopes": ["uns:read"]}`)
	var made ClientSecret
	if a.into(t, &made); a.status != 201 || a.header.Get("Location") != clientsRoute+"/press%3F7" {
		t.Fatalf("add: %d %s at %q", a.status, a.body, a.header.Get("Location"))
	}
	if c := made.Client; c.Workspace != "plant" || !same(c.Publish, []string{"#"}) || len(c.Subscribe) != 0 || c.Disabled {
		t.Errorf("added %+v, want the caller's workspace, publish everything, subscribe to nothing", c)
	}
	press := basic{"press?7", made.Secret}
	if a := r.get(press, "/api/v1/uns/plant/history"); a.status != 200 {
		t.Errorf("sign in with the secret: %d %s", a.status, a.body)
	}
	r.post(admin, clientsRoute, `{"id": "press?7"}`).want(t, 409, codeExists, "press?7")

	at := clientsRoute + "/press%3F7"
	var rotated ClientSecret
	r.post(admin, at+"/rotate", "").into(t, &rotated)
	r.get(press, "/api/v1/uns/plant/history").want(t, 401, codeUnauthorized)
	press.secret = rotated.Secret
	if a := r.get(press, "/api/v1/uns/plant/history"); a.status != 200 {
		t.Errorf("sign in after rotate: %d %s", a.status, a.body)
	}

	var c Client
	if r.post(admin, at+"/disable", "").into(t, &c); !c.Disabled {
		t.Errorf("after disable %+v", c)
	}
	r.get(press, "/api/v1/uns/plant/history").want(t, 401, codeUnauthorized)
	if r.post(admin, at+"/enable", "").into(t, &c); c.Disabled {
		t.Errorf("after enable %+v", c)
	}
	if a := r.get(press, "/api/v1/uns/plant/history"); a.status != 200 {
		t.Errorf("sign in after enable: %d %s", a.status, a.body)
	}

	if a := r.call(admin, "DELETE", at, "", ""); a.status != 204 || len(a.body) != 0 {
		t.Errorf("delete: %d %s", a.status, a.body)
	}
	r.get(admin, at).want(t, 404, codeNotFound, "press?7")
	r.get(press, "/api/v1/uns/plant/history").want(t, 401, codeUnauthorized)
}

func TestAChosenSecretWorksAndIsNotShown(t *testing.T) {
	r := newRig(t)
	admin := r.client("admin", "plant", ScopeClients, ScopeRead)
	a := r.post(admin, clientsRoute, `{"id": "human", "scopes": ["uns:read"], "secret": "correct horse battery staple"}`)
	var made ClientSecret
	if a.into(t, &made); a.status != 201 || made.Secret != "" {
		t.Fatalf("add: %d %s, want 201 without the secret", a.status, a.body)
	}
	if a := r.get(basic{"human", "correct horse battery staple"}, "/api/v1/uns/plant/history"); a.status != 200 {
		t.Errorf("sign in: %d %s", a.status, a.body)
	}
}

func TestManagersAreBoundToTheirWorkspaceUnlessTheyHaveAll(t *testing.T) {
	r := newRig(t)
	local, all := r.client("local", "plant", ScopeClients), r.client("all", "plant", ScopeAllClients)
	r.client("elsewhere", "other")
	if got := ids(t, r.get(local, clientsRoute)); !same(got, []string{"all", "local"}) {
		t.Errorf("the local manager sees %v, want its workspace", got)
	}
	if got := ids(t, r.get(all, clientsRoute)); !same(got, []string{"all", "elsewhere", "local"}) {
		t.Errorf("the manager of all sees %v, want every client", got)
	}
	r.get(local, clientsRoute+"/elsewhere").want(t, 404, codeNotFound)
	r.call(local, "DELETE", clientsRoute+"/elsewhere", "", "").want(t, 404, codeNotFound)
	for _, verb := range []string{"rotate", "disable", "enable"} {
		r.post(local, clientsRoute+"/elsewhere/"+verb, "").want(t, 404, codeNotFound)
	}
	r.post(local, clientsRoute, `{"id": "x", "workspace": "other"}`).want(t, 403, codeWorkspace, "other", ScopeAllClients)
	if a := r.post(all, clientsRoute, `{"id": "x", "workspace": "other"}`); a.status != 201 {
		t.Errorf("the manager of all adds to another workspace: %d %s", a.status, a.body)
	}
}

func TestNobodyHandsOutOrTakesOverMoreThanTheyHave(t *testing.T) {
	r := newRig(t)
	manager := r.client("manager", "plant", ScopeClients, ScopeRead)
	r.client("strong", "plant", ScopeRead, ScopeSettings)
	r.post(manager, clientsRoute, `{"id": "x", "scopes": ["uns:read", "uns:write"]}`).want(t, 403, codeNotGranted, ScopeWrite)
	r.post(manager, clientsRoute, `{"id": "x", "scopes": ["api_clients:manage:all"]}`).want(t, 403, codeNotGranted, ScopeAllClients)
	for _, verb := range []string{"rotate", "disable", "enable"} {
		r.post(manager, clientsRoute+"/strong/"+verb, "").want(t, 403, codeNotGranted, ScopeSettings)
	}
	r.call(manager, "DELETE", clientsRoute+"/strong", "", "").want(t, 403, codeNotGranted, ScopeSettings)
	if a := r.get(manager, clientsRoute+"/strong"); a.status != 200 {
		t.Errorf("looking at it: %d %s, want 200", a.status, a.body)
	}
}

func TestAClientThatCannotBeIsRefusedWithTheReason(t *testing.T) {
	r := newRig(t)
	admin := r.client("admin", "plant", ScopeAllClients)
	for body, word := range map[string]string{
		`{"id": ""}`:                        "id",
		`{"id": "a/b"}`:                     "a/b",
		`{"id": "a", "publish": ["a/#/b"]}`: "a/#/b",
		`{"id": "a", "subscribe": ["a+"]}`:  "a+",
		`{"id": "a", "workspace": "a/b"}`:   "a/b",
		`{"id": "a", "secret": "short"}`:    "secret",
		`{"id": "a", "secretHash": "x"}`:    "secretHash",
		`{"id": "a", "publish": "#"}`:       "publish",
	} {
		r.post(admin, clientsRoute, body).want(t, 400, codeBody, word)
	}
}

func TestTheOperatorMakesTheFirstClientAndSeesNoWorkspacesValues(t *testing.T) {
	r := newRig(t)
	a := r.callAt(r.admin, anonymous{}, "POST", clientsRoute, "application/json", `{"id": "first", "workspace": "plant", "scopes": ["api_clients:manage", "api_clients:manage:all", "uns:read"]}`)
	var made ClientSecret
	if a.into(t, &made); a.status != 201 || made.Secret == "" {
		t.Fatalf("first client: %d %s", a.status, a.body)
	}
	if got := ids(t, r.get(basic{"first", made.Secret}, clientsRoute)); !same(got, []string{"first"}) {
		t.Errorf("the first client sees %v", got)
	}
	r.callAt(r.admin, anonymous{}, "POST", clientsRoute, "application/json", `{"id": "lost"}`).want(t, 400, codeBody, "workspace")
	if a := r.callAt(r.admin, anonymous{}, "GET", "/api/v1/system/uns/settings/status", "", ""); a.status != 200 {
		t.Errorf("status: %d %s", a.status, a.body)
	}
	for _, path := range []string{"/api/v1/uns/plant/history", "/metrics"} {
		response, err := http.Get(r.admin + path)
		fatal(t, err)
		response.Body.Close()
		if response.StatusCode != 404 {
			t.Errorf("the operator's socket serves %s: %d, want 404", path, response.StatusCode)
		}
	}
}
