package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/historian/pebble"
	"maestrohub.io/uns/broker/ingest"
	"maestrohub.io/uns/broker/metrics"
	"maestrohub.io/uns/broker/model"
	"maestrohub.io/uns/broker/retained"
	"maestrohub.io/uns/broker/state/memory"
	"maestrohub.io/uns/broker/topic"
	"maestrohub.io/uns/broker/value"
)

const testModel = `
schemas:
  temperature: {type: number, unit: °C, min: -40, max: 150}
  picture: {type: opaque}
workspaces:
  - slug: plant
    bindings:
      - {topic: line1/temperature, schema: temperature, retain: true}
      - {topic: line1/picture, schema: picture, maxPayloadBytes: 16}
  - slug: other
`

// rig is an API on real parts, served over HTTP; only the disk is in memory.
// Every answer it gets is checked against openapi.yaml.
type rig struct {
	t         *testing.T
	url       string
	admin     string
	access    *access.Access
	historian *faulty
	ready     atomic.Pointer[error]
	connected []Connection
	router    routers.Router
	options   Options
}

// faulty is a historian whose disk can be taken away.
type faulty struct {
	historian.Historian
	down atomic.Bool
}

func (f *faulty) Append(ctx context.Context, values []*value.Value) error {
	if f.down.Load() {
		return historian.ErrUnavailable
	}
	return f.Historian.Append(ctx, values)
}

func (f *faulty) Read(ctx context.Context, q historian.Query) (historian.Page, error) {
	if f.down.Load() {
		return historian.Page{}, historian.ErrUnavailable
	}
	return f.Historian.Read(ctx, q)
}

// nobody subscribes.
type nobody struct{}

func (nobody) Deliver([]*value.Value)   {}
func (nobody) Flush()                   {}
func (nobody) Wanted(*value.Value) bool { return false }
func (nobody) Generation() uint64       { return 0 }

func newRig(t *testing.T, change ...func(*Options)) *rig {
	t.Helper()
	ctx := context.Background()
	log := slog.New(slog.DiscardHandler)
	store, err := memory.Open(memory.Options{})
	fatal(t, err)
	stored, err := pebble.Open("history", pebble.Options{FS: vfs.NewMem(), Logger: log})
	fatal(t, err)
	grammar := topic.Grammar{}
	m := metrics.New()
	r := &rig{t: t, historian: &faulty{Historian: stored}}
	r.access, err = access.Open(ctx, store, access.Options{Grammar: grammar, TokenTTL: time.Hour})
	fatal(t, err)
	kept, err := retained.Open(ctx, store)
	fatal(t, err)
	plant, err := model.Parse([]byte(testModel))
	fatal(t, err)
	chain := ingest.New(ingest.Options{Grammar: grammar, Model: func() *model.Model { return plant }, Historian: r.historian, Logs: store,
		Retained: kept, Live: nobody{}, Wanted: nobody{}, Metrics: m, Logger: log, MaxTopicBytes: 1024, MaxTopicLevels: 32,
		AppendWait: 100 * time.Millisecond, StoreBudget: 100 * time.Millisecond})
	o := Options{Access: r.access, History: r.historian, Values: chain, Retained: kept, Grammar: grammar, Metrics: m, Log: log,
		Ready: func() error {
			if err := r.ready.Load(); err != nil {
				return *err
			}
			return nil
		},
		Status:      testStatus,
		Overview:    testOverview,
		Connections: func(string) []Connection { return r.connected },
	}
	for _, c := range change {
		c(&o)
	}
	r.options = o
	a := New(o)
	network, admin := httptest.NewServer(a.Handler()), httptest.NewServer(a.AdminHandler())
	r.url, r.admin = network.URL, admin.URL
	r.router, err = legacy.NewRouter(document(t))
	fatal(t, err)
	t.Cleanup(func() {
		network.Close()
		admin.Close()
		chain.Stop(ctx)
		kept.Close()
		if err := errors.Join(stored.Close(), store.Close()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return r
}

func testStatus() Status {
	return Status{Broker: BrokerStatus{Mode: "embedded", Version: "test", Started: time.Now(), Listeners: []Listener{{"tcp", "127.0.0.1:1883"}},
		Cluster:   ClusterStatus{Replica: "a", Mesh: "off", Members: []string{"a"}, MemberCount: 1},
		Historian: HistorianStatus{Kind: "embedded", Available: true}}}
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// client adds an API client of a workspace and returns its credential.
func (r *rig) client(id, workspace string, scopes ...string) basic {
	r.t.Helper()
	secret, err := r.access.Add(context.Background(), access.Client{ID: id, Workspace: workspace, Publish: []string{"#"}, Subscribe: []string{"#"}, Scopes: scopes}, "")
	fatal(r.t, err)
	return basic{id, secret}
}

// credential signs a request.
type credential interface{ sign(*http.Request) }

type basic struct{ id, secret string }

func (b basic) sign(r *http.Request) { r.SetBasicAuth(b.id, b.secret) }

type bearer string

func (b bearer) sign(r *http.Request) { r.Header.Set("Authorization", "Bearer "+string(b)) }

type anonymous struct{}

func (anonymous) sign(*http.Request) {}

type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) into(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal(a.body, v); err != nil {
		t.Fatalf("body %s: %v", a.body, err)
	}
}

// problem returns the code and detail of a refusal.
func (a answer) problem() (code, detail string) {
	var p problem
	_ = json.Unmarshal(a.body, &p)
	return p.Code, p.Detail
}

// want fails unless the answer is a refusal of that status and code whose detail
// names every one of words.
func (a answer) want(t *testing.T, status int, code string, words ...string) {
	t.Helper()
	got, detail := a.problem()
	if a.status != status || got != code {
		t.Fatalf("answer %d %s (%s), want %d %s", a.status, got, a.body, status, code)
	}
	for _, w := range words {
		if !strings.Contains(detail, w) {
			t.Errorf("detail %q: want %q named in it", detail, w)
		}
	}
}

func (r *rig) get(as credential, path string) answer { return r.call(as, "GET", path, "", "") }

func (r *rig) post(as credential, path, body string) answer {
	return r.call(as, "POST", path, "application/json", body)
}

// call sends a request over the network and checks its answer against the document.
func (r *rig) call(as credential, method, path, contentType, body string) answer {
	r.t.Helper()
	return r.callAt(r.url, as, method, path, contentType, body)
}

// undocumented gets an answer that no operation lists.
func (r *rig) undocumented(as credential, path string) answer {
	r.t.Helper()
	_, a := r.send(r.url, as, "GET", path, "", "")
	return a
}

func (r *rig) callAt(base string, as credential, method, path, contentType, body string) answer {
	r.t.Helper()
	request, a := r.send(base, as, method, path, contentType, body)
	r.documented(request, a)
	return a
}

func (r *rig) send(base string, as credential, method, path, contentType, body string) (*http.Request, answer) {
	r.t.Helper()
	request, err := http.NewRequest(method, base+path, strings.NewReader(body))
	fatal(r.t, err)
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	as.sign(request)
	response, err := http.DefaultClient.Do(request)
	fatal(r.t, err)
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	fatal(r.t, err)
	return request, answer{response.StatusCode, response.Header, data}
}

func readAllOf(t *testing.T, response *http.Response) []byte {
	t.Helper()
	data, err := io.ReadAll(response.Body)
	fatal(t, err)
	return data
}

// documented checks an answer against the document. Unknown paths and methods
// are nobody's operation; their answers are checked by the tests that ask for them.
func (r *rig) documented(request *http.Request, a answer) {
	r.t.Helper()
	request = request.Clone(context.Background())
	request.URL.Scheme, request.URL.Host, request.Host = "", "", ""
	route, parameters, err := r.router.FindRoute(request)
	if err != nil {
		if a.status != http.StatusNotFound && a.status != http.StatusMethodNotAllowed {
			r.t.Errorf("%s %s: %d, and not in openapi.yaml: %v", request.Method, request.URL, a.status, err)
		}
		return
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: request, PathParams: parameters, Route: route},
		Status:                 a.status, Header: a.header,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	input.SetBodyBytes(a.body)
	if route.Path == "/metrics" || route.Path == "/api/v1/openapi.yaml" {
		input.Options.ExcludeResponseBody = true
	}
	if err := openapi3filter.ValidateResponse(context.Background(), input); err != nil {
		r.t.Errorf("%s %s answers %d, not as openapi.yaml says: %v\n%s", request.Method, request.URL, a.status, err, a.body)
	}
}
