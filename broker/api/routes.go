package api

import (
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/broker/metrics"
)

// The scopes the API asks for, one per route.
const (
	ScopeRead       = access.ScopeRead
	ScopeWrite      = access.ScopeWrite
	ScopeSettings   = access.ScopeSettings
	ScopeClients    = access.ScopeClients
	ScopeAllClients = access.ScopeAllClients
)

// Scopes lists every scope there is, for the operator of the machine and for
// messages that say what is allowed.
var Scopes = []string{ScopeRead, ScopeWrite, ScopeSettings, ScopeClients, ScopeAllClients}

// handler answers a signed-in request. A refusal it returns is written by the
// caller; on nil it has answered itself.
type handler func(w http.ResponseWriter, r *http.Request, c caller) *refusal

// route is one row of the table that openapi.yaml is checked against.
type route struct {
	method, path string
	// scope is what the credential needs; "" with open means no credential.
	scope string
	// admin says that the operator's socket serves the route too.
	admin bool
	// probe routes are served however many requests there are; heavy ones carry
	// values. One that is late takes its slot itself, once its body is read: anybody
	// may send it one, as slowly as they like.
	probe, heavy, late bool
	// look routes show how the broker is, and take a credential as it was last known while
	// the store does not answer.
	look    bool
	open    http.HandlerFunc
	handler handler
}

func (a *API) routes() []route {
	return []route{
		{method: "GET", path: "/health/live", open: a.live, probe: true, admin: true},
		{method: "GET", path: "/health/ready", open: a.ready, probe: true, admin: true},
		{method: "GET", path: "/metrics", open: a.o.Metrics.Handler().ServeHTTP, probe: true},
		{method: "GET", path: "/api/v1/openapi.yaml", open: a.document},
		{method: "POST", path: "/api/v1/oauth2/token", open: a.token, late: true},

		{method: "GET", path: "/api/v1/uns/{workspace}/history", scope: ScopeRead, handler: a.history, heavy: true},
		{method: "POST", path: "/api/v1/uns/{workspace}/values", scope: ScopeWrite, handler: a.write, heavy: true},
		{method: "GET", path: "/api/v1/uns/{workspace}/retained", scope: ScopeRead, handler: a.retained, heavy: true},
		{method: "GET", path: "/api/v1/uns/{workspace}/rejects", scope: ScopeRead, handler: a.rejects, heavy: true},
		{method: "GET", path: "/api/v1/uns/{workspace}/connections", scope: ScopeRead, handler: a.connections},

		{method: "GET", path: "/api/v1/api-clients", scope: ScopeClients, handler: a.listClients, admin: true},
		{method: "POST", path: "/api/v1/api-clients", scope: ScopeClients, handler: a.addClient, admin: true},
		{method: "GET", path: "/api/v1/api-clients/{id}", scope: ScopeClients, handler: a.showClient, admin: true},
		{method: "DELETE", path: "/api/v1/api-clients/{id}", scope: ScopeClients, handler: a.deleteClient, admin: true},
		{method: "POST", path: "/api/v1/api-clients/{id}/rotate", scope: ScopeClients, handler: a.rotateClient, admin: true},
		{method: "POST", path: "/api/v1/api-clients/{id}/disable", scope: ScopeClients, handler: a.disableClient, admin: true},
		{method: "POST", path: "/api/v1/api-clients/{id}/enable", scope: ScopeClients, handler: a.enableClient, admin: true},

		{method: "GET", path: "/api/v1/system/uns/settings/status", scope: ScopeSettings, handler: a.status, admin: true, look: true},
		{method: "GET", path: "/api/v1/system/uns/broker", scope: ScopeSettings, handler: a.overview, admin: true, look: true},
	}
}

// Handler serves the network: every route, each with its credential and scope.
func (a *API) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, r := range a.routes() {
		serve := r.open
		if serve == nil {
			serve = a.signedIn(r)
		}
		if !r.probe && !r.late {
			serve = limited(a.slots, serve)
		}
		mux.HandleFunc(r.method+" "+r.path, a.counted(r, serve))
	}
	for _, path := range []string{"/{$}", "/page/{file}"} {
		mux.HandleFunc("GET "+path, limited(a.slots, a.page)) // files for a browser, not of the document
	}
	return a.guarded(mux)
}

// Starting serves the network while the replica's stores are not open: its health, its
// metrics, and to everything else what it waits for. Ready is that of Options.
func Starting(ready func() error, m *metrics.Metrics, log *slog.Logger) http.Handler {
	a := New(Options{Ready: ready, Metrics: m, Log: log})
	mux := http.NewServeMux()
	for _, r := range a.routes() {
		if r.probe {
			mux.HandleFunc(r.method+" "+r.path, a.counted(r, r.open))
		}
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		said := "the replica is there in a moment"
		if err := ready(); err != nil {
			said = publicReason(err)
		}
		refuse(http.StatusServiceUnavailable, codeUnavailable, "%s", said).after(retrySoon).write(w)
	})
	return a.guarded(mux)
}

// AdminHandler serves the operator of the machine, who needs no credential: being
// able to open the socket it is bound to is the credential.
func (a *API) AdminHandler() http.Handler {
	mux := http.NewServeMux()
	for _, r := range a.routes() {
		if !r.admin {
			continue
		}
		serve := r.open
		if serve == nil {
			serve = asOperator(r.handler)
		}
		mux.HandleFunc(r.method+" "+r.path, serve)
	}
	return a.guarded(mux)
}

func asOperator(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if refused := h(w, r, caller{operator: true}); refused != nil {
			refused.write(w)
		}
	}
}

// counted counts the answers of a route and takes their time. Unknown paths are
// not counted: their number is anybody's choice.
func (a *API) counted(r route, next http.HandlerFunc) http.HandlerFunc {
	name := r.method + " " + r.path
	seconds := a.o.Metrics.HTTPRequestSeconds.WithLabelValues(name)
	return func(w http.ResponseWriter, req *http.Request) {
		began := time.Now()
		answer := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next(answer, req)
		seconds.Observe(time.Since(began).Seconds())
		a.o.Metrics.HTTPRequests.WithLabelValues(name, strconv.Itoa(answer.status)).Inc()
	}
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (s *statusWriter) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the connection.
func (s *statusWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// limited serves as many requests at once as slots has room for, so that slow
// clients of the API cannot take the memory that ingest needs.
func limited(slots chan struct{}, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			next(w, r)
		default:
			refuse(http.StatusServiceUnavailable, codeBusy, "%d requests are being served, the most there may be at once", cap(slots)).
				after(retrySoon).write(w)
		}
	}
}

// guarded sets what every answer has, refuses unknown paths and methods as
// problems instead of the mux's plain text, and keeps a fault in one request from
// passing unseen.
func (a *API) guarded(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if fault := recover(); fault != nil {
				a.o.Log.Error("HTTP request ended by a fault of the broker: report it", "method", r.Method, "path", r.URL.Path, "fault", fault, "stack", string(debug.Stack()))
				refuse(http.StatusInternalServerError, codeInternal, "a fault of the broker; its log says more").write(w)
			}
		}()
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		matched, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		// The mux's own answer tells a redirect or a wrong method, with its Allow
		// header, from an unknown path; only its body is replaced.
		own := &headerOnly{header: http.Header{}}
		matched.ServeHTTP(own, r)
		switch own.status {
		case http.StatusMethodNotAllowed:
			allow := own.header.Get("Allow")
			h.Set("Allow", allow)
			refuse(own.status, codeMethod, "%s %s: the method must be one of %s", r.Method, r.URL.Path, allow).write(w)
		default:
			refuse(http.StatusNotFound, codeNotFound, "%s: no such path; /api/v1/openapi.yaml lists them", r.URL.Path).write(w)
		}
	})
}

// headerOnly is a ResponseWriter that keeps the status and header of an answer.
type headerOnly struct {
	header http.Header
	status int
}

func (h *headerOnly) Header() http.Header         { return h.header }
func (h *headerOnly) Write(b []byte) (int, error) { return len(b), nil }
func (h *headerOnly) WriteHeader(status int)      { h.status = status }
