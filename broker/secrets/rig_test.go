package secrets

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// envAPI names a Kubernetes API that needs no sign-in, such as kubectl proxy's: the tests then use it, with namespaces
// of their own, instead of the one below. `make e2e` runs them so.
const envAPI = "SECRETS_TEST_API"

func TestMain(m *testing.M) {
	bcryptCost = bcrypt.MinCost
	os.Exit(m.Run())
}

// fakeAPI answers for Secrets and namespaces as a Kubernetes API does.
type fakeAPI struct {
	mu         sync.Mutex
	namespaces map[string]bool
	secrets    map[string]object
	revision   int
	writes     int
	// before sees each request and may answer it itself; after may spoil an answer whose effect has been had.
	before, after func(w http.ResponseWriter, r *http.Request) (answered bool)
}

func (a *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.before != nil && a.before(w, r) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	code, answer := a.answer(r)
	if a.after != nil && a.after(w, r) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(answer)
}

func failure(code int, reason, format string, args ...any) (int, any) {
	return code, map[string]any{"kind": "Status", "status": "Failure", "reason": reason, "message": fmt.Sprintf(format, args...), "code": code}
}

func (a *fakeAPI) answer(r *http.Request) (int, any) {
	body, _ := io.ReadAll(r.Body)
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces"), "/")[1:]
	switch {
	case len(path) == 0 && r.Method == http.MethodPost:
		var o object
		json.Unmarshal(body, &o)
		if a.namespaces[o.Metadata.Name] {
			return failure(409, "AlreadyExists", "namespaces %q already exists", o.Metadata.Name)
		}
		a.namespaces[o.Metadata.Name] = true
		return 201, o
	case len(path) == 1 && r.Method == http.MethodGet:
		if !a.namespaces[path[0]] {
			return failure(404, "NotFound", "namespaces %q not found", path[0])
		}
		return 200, object{Metadata: metadata{Name: path[0]}}
	case len(path) < 2 || path[1] != "secrets":
		return failure(404, "NotFound", "no such path %s", r.URL.Path)
	}
	name := ""
	if len(path) == 3 {
		name = path[2]
	}
	there, known := a.secrets[path[0]+"/"+name]
	switch r.Method {
	case http.MethodGet:
		if !known {
			return failure(404, "NotFound", "secrets %q not found", name)
		}
		return 200, there
	case http.MethodPost:
		var o object
		if err := json.Unmarshal(body, &o); err != nil {
			return failure(400, "BadRequest", "%v", err)
		}
		key := path[0] + "/" + o.Metadata.Name
		if !a.namespaces[path[0]] {
			return failure(404, "NotFound", "namespaces %q not found", path[0])
		}
		if _, known := a.secrets[key]; known {
			return failure(409, "AlreadyExists", "secrets %q already exists", o.Metadata.Name)
		}
		return 201, a.put(key, o)
	case http.MethodPatch:
		var patch struct {
			Metadata metadata           `json:"metadata"`
			Data     map[string]*[]byte `json:"data"`
		}
		if err := json.Unmarshal(body, &patch); err != nil || r.Header.Get("Content-Type") != "application/merge-patch+json" {
			return failure(400, "BadRequest", "%v", err)
		}
		if !known {
			return failure(404, "NotFound", "secrets %q not found", name)
		}
		if patch.Metadata.ResourceVersion != "" && patch.Metadata.ResourceVersion != there.Metadata.ResourceVersion {
			return failure(409, "Conflict", "the object has been modified")
		}
		there.Data = maps.Clone(there.Data)
		for k, v := range patch.Data {
			if v == nil {
				delete(there.Data, k)
			} else {
				there.Data[k] = *v
			}
		}
		there.Metadata.Annotations = maps.Clone(there.Metadata.Annotations)
		if there.Metadata.Annotations == nil {
			there.Metadata.Annotations = map[string]string{}
		}
		maps.Copy(there.Metadata.Annotations, patch.Metadata.Annotations)
		return 200, a.put(path[0]+"/"+name, there)
	}
	return failure(405, "MethodNotAllowed", "%s", r.Method)
}

func (a *fakeAPI) put(key string, o object) object {
	a.revision++
	a.writes++
	o.Metadata.ResourceVersion = strconv.Itoa(a.revision)
	a.secrets[key] = o
	return o
}

// world is an API with two namespaces and a plan for them.
type world struct {
	t    *testing.T
	api  *fakeAPI // nil: a real one
	kube *Kubernetes
	plan *Plan
	own  string // namespace of the broker
	deps string // namespace of NATS
	said []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, own: fmt.Sprintf("secrets-test-%x", time.Now().UnixNano())}
	w.deps = w.own + "-deps"
	if url := os.Getenv(envAPI); url != "" {
		w.kube = &Kubernetes{URL: strings.TrimSuffix(url, "/"), Client: &http.Client{}}
		t.Cleanup(func() { w.delete(w.own); w.delete(w.deps) })
	} else {
		w.api = &fakeAPI{namespaces: map[string]bool{}, secrets: map[string]object{}}
		server := httptest.NewServer(w.api)
		t.Cleanup(server.Close)
		w.kube = &Kubernetes{URL: server.URL, Client: server.Client(), Pause: time.Millisecond}
	}
	for _, n := range []string{w.own, w.deps} {
		if created, err := w.kube.Namespace(t.Context(), n, map[string]string{"test": "secrets"}); err != nil || !created {
			t.Fatalf("namespace %s: created %v, %v", n, created, err)
		}
	}
	w.plan = w.newPlan()
	return w
}

// fake is a world whose API can be made to fail.
func fake(t *testing.T) *world {
	t.Helper()
	if os.Getenv(envAPI) != "" {
		t.Skip("needs an API that can be made to fail")
	}
	return newWorld(t)
}

func (w *world) delete(namespace string) {
	request, err := http.NewRequest(http.MethodDelete, w.kube.URL+"/api/v1/namespaces/"+namespace, nil)
	if err == nil {
		var response *http.Response
		if response, err = w.kube.Client.Do(request); err == nil {
			response.Body.Close()
		}
	}
	if err != nil {
		w.t.Errorf("delete namespace %s: %v", namespace, err)
	}
}

// newPlan is what the chart writes with everything on.
func (w *world) newPlan() *Plan {
	w.t.Helper()
	text := strings.NewReplacer("OWN", w.own, "DEPS", w.deps).Replace(`
labels: {app.kubernetes.io/part-of: maestrohub}
authorities:
- {thing: mesh authority, secret: {namespace: OWN, name: mesh-ca}, name: mesh, days: 7300, stage: ""}
- {thing: NATS authority, secret: {namespace: DEPS, name: nats-ca}, name: NATS, days: 7300, stage: ""}
passwords:
- {thing: NATS passwords, secret: {namespace: OWN, name: auth-uns}, keys: [broker, uns], renew: ""}
- {thing: NATS system password, secret: {namespace: DEPS, name: auth-sys}, keys: [sys], renew: ""}
- {thing: database password, secret: {namespace: OWN, name: database}, keys: [password], texts: {url: "postgres://uns:${password}@db/uns"}}
certificates:
- {thing: mesh certificate, secret: {namespace: OWN, name: mesh-tls}, authority: {namespace: OWN, name: mesh-ca}, name: uns, dns: ["*.uns-headless", "*.uns-headless.OWN.svc"], usages: [server, client], days: 3650}
- {thing: NATS server certificate, secret: {namespace: DEPS, name: server-tls}, authority: {namespace: DEPS, name: nats-ca}, name: nats, dns: [nats, nats.DEPS.svc, "*.nats-headless"], usages: [server, client], days: 3650}
- {thing: NATS client certificate, secret: {namespace: OWN, name: client-tls}, authority: {namespace: DEPS, name: nats-ca}, name: uns, usages: [client], days: 3650}
accounts:
- thing: NATS accounts
  secret: {namespace: DEPS, name: auth}
  key: accounts.conf
  accounts:
  - {name: BROKER, user: uns-broker, password: {secret: {namespace: OWN, name: auth-uns}, key: broker}, jetStream: {}}
  - {name: APP, user: uns, password: {secret: {namespace: OWN, name: auth-uns}, key: uns}, jetStream: {}}
  - {name: SYS, user: sys, password: {secret: {namespace: DEPS, name: auth-sys}, key: sys}}
`)
	p, err := ParsePlan([]byte(text))
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) try() error {
	return Ensure(w.t.Context(), w.kube, w.plan, 0, func(line string) { w.said = append(w.said, line) })
}

func (w *world) ensure() {
	w.t.Helper()
	if err := w.try(); err != nil {
		w.t.Fatal(err)
	}
}

// at decides as if it were that time, and writes. The API's own time does not matter to it.
func (w *world) at(now time.Time) error {
	w.t.Helper()
	writes, notes, err := decide(w.plan, w.all(), now)
	w.said = append(w.said, notes...)
	if err != nil {
		return err
	}
	return apply(w.t.Context(), w.kube, writes, 0, func(line string) { w.said = append(w.said, line) })
}

// all reads every Secret of the plan.
func (w *world) all() map[Ref]*Secret {
	w.t.Helper()
	all := map[Ref]*Secret{}
	for _, r := range w.plan.refs() {
		if s, err := w.kube.Read(w.t.Context(), r); err == nil {
			all[r] = s
		} else if err != ErrMissing {
			w.t.Fatal(err)
		}
	}
	return all
}

func (w *world) secret(name string) *Secret {
	w.t.Helper()
	s, err := w.kube.Read(w.t.Context(), w.ref(name))
	if err != nil {
		w.t.Fatalf("Secret %s: %v", name, err)
	}
	return s
}

// ref finds a Secret of the plan by its name.
func (w *world) ref(name string) Ref {
	for _, r := range w.plan.refs() {
		if r.Name == name {
			return r
		}
	}
	w.t.Fatalf("the plan has no Secret %s", name)
	return Ref{}
}

// put changes keys of a Secret as an operator would; nil removes one.
func (w *world) put(name string, data map[string][]byte) {
	w.t.Helper()
	s := w.secret(name)
	if err := w.kube.Change(w.t.Context(), Change{Ref: s.Ref, Revision: s.Revision, Data: data}); err != nil {
		w.t.Fatal(err)
	}
}

// bring creates a Secret as an operator would, without the label of those that are made.
func (w *world) bring(name, kind string, data map[string][]byte) {
	w.t.Helper()
	if err := w.kube.Create(w.t.Context(), &Secret{Ref: w.ref(name), Type: kind, Data: data}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) remove(name string) {
	w.t.Helper()
	r := w.ref(name)
	if w.api != nil {
		w.api.mu.Lock()
		delete(w.api.secrets, r.String())
		w.api.mu.Unlock()
		return
	}
	request, err := http.NewRequest(http.MethodDelete, w.kube.URL+secretPath(r), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	response, err := w.kube.Client.Do(request)
	if err != nil || response.StatusCode >= 300 {
		w.t.Fatalf("delete %s: %v %v", r, response, err)
	}
	response.Body.Close()
}

// same says whether nothing was written since before.
func (w *world) same(before map[Ref]*Secret) bool {
	now := w.all()
	return maps.EqualFunc(before, now, func(a, b *Secret) bool {
		return a.Revision == b.Revision && maps.EqualFunc(a.Data, b.Data, bytes.Equal)
	})
}

// refuses expects an error with all the parts, and that nothing was written.
func (w *world) refuses(parts ...string) {
	w.t.Helper()
	before := w.all()
	err := w.try()
	if err == nil {
		w.t.Errorf("accepted, want a refusal with %q", parts)
		return
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			w.t.Errorf("refused with\n%v\nwant %q in it", err, p)
		}
	}
	if !w.same(before) {
		w.t.Error("something was written all the same")
	}
}

// heard says whether a line with the part was said.
func (w *world) heard(part string) bool { return strings.Contains(strings.Join(w.said, "\n"), part) }

func (w *world) certificate(thing string) *Certificate {
	for i := range w.plan.Certificates {
		if w.plan.Certificates[i].Thing == thing {
			return &w.plan.Certificates[i]
		}
	}
	w.t.Fatalf("the plan has no %s", thing)
	return nil
}
