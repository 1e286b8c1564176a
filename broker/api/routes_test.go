package api

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestLiveNeverDependsOnAStoreAndReadyDoes(t *testing.T) {
	r := newRig(t)
	if a := r.get(anonymous{}, "/health/ready"); a.status != 200 || !strings.Contains(string(a.body), `"ready"`) {
		t.Errorf("ready: %d %s", a.status, a.body)
	}
	down := errors.New("historian: disk full")
	r.ready.Store(&down)
	a := r.get(anonymous{}, "/health/ready")
	if a.status != 503 || !strings.Contains(string(a.body), `"reason":"broker-cluster-store: historian: disk full"`) {
		t.Errorf("ready with a full disk: %d %s, want 503 and the reason", a.status, a.body)
	}
	if a := r.get(anonymous{}, "/health/live"); a.status != 200 {
		t.Errorf("live with a full disk: %d %s, want 200", a.status, a.body)
	}
}

func TestStatusSaysWhatTheReplicaSaysAndWhetherItIsReady(t *testing.T) {
	r := newRig(t)
	c := r.client("admin", "plant", ScopeSettings)
	var s Status
	if r.get(c, "/api/v1/system/uns/settings/status").into(t, &s); !s.Broker.Ready || s.Broker.Cluster.Replica != "a" || s.Broker.Cluster.MemberCount != 1 {
		t.Errorf("status %+v", s)
	}
	down := errors.New("historian: disk full")
	r.ready.Store(&down)
	if r.get(c, "/api/v1/system/uns/settings/status").into(t, &s); s.Broker.Ready || !strings.Contains(s.Broker.Reason, "disk full") {
		t.Errorf("status with a full disk %+v", s.Broker)
	}
}

func TestTheClusterPartOfTheStatusHasItsOptionalFieldsOnlyWhenSet(t *testing.T) {
	full := testStatus()
	full.Broker.Cluster.StoreUnreachable, full.Broker.Cluster.Fenced, full.Broker.Cluster.DuplicateReplicaID = "no answer", true, true
	full.Broker.Cluster.BelowFormatFloor, full.Broker.Cluster.SessionLogValuesMissed, full.Broker.Cluster.SessionLogReadsHeld = true, 3, 2
	names := []string{"storeUnreachable", "fenced", "duplicateReplicaId", "belowFormatFloor", "sessionLogValuesMissed", "sessionLogReadsHeld"}
	for _, set := range []bool{false, true} {
		r := newRig(t, func(o *Options) {
			if set {
				o.Status = func() Status { return full }
			}
		})
		body := string(r.get(r.client("admin", "plant", ScopeSettings), "/api/v1/system/uns/settings/status").body)
		for _, name := range names {
			if strings.Contains(body, `"`+name+`"`) != set {
				t.Errorf("set %t: %s in the status is %t: %s", set, name, !set, body)
			}
		}
	}
}

func TestUnknownPathsAndMethodsAreProblems(t *testing.T) {
	r := newRig(t)
	r.get(anonymous{}, "/nothing").want(t, 404, codeNotFound, "/nothing", "openapi.yaml")
	a := r.call(anonymous{}, "PUT", "/api/v1/api-clients", "", "")
	if a.want(t, 405, codeMethod, "PUT", "POST"); !strings.Contains(a.header.Get("Allow"), "POST") {
		t.Errorf("Allow %q", a.header.Get("Allow"))
	}
	a = r.call(anonymous{}, "OPTIONS", "/api/v1/api-clients", "", "")
	if a.want(t, 405, codeMethod); a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("CORS is on")
	}
}

func TestEveryAnswerForbidsCachingAndSniffing(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{"/health/live", "/metrics", "/api/v1/openapi.yaml", "/api/v1/api-clients", "/nothing"} {
		a := r.get(anonymous{}, path)
		if a.header.Get("Cache-Control") != "no-store" || a.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: headers %v", path, a.header)
		}
	}
}

func TestAnAnswerIsJSONAsPeopleReadIt(t *testing.T) {
	r := newRig(t)
	if a := r.undocumented(anonymous{}, "/no%3Cthing%3E&"); !strings.Contains(string(a.body), "/no<thing>&") {
		t.Errorf("the answer %s, want the path in it without escapes", a.body)
	}
}

func TestTheDocumentAndTheMetricsAreServed(t *testing.T) {
	r := newRig(t)
	if a := r.get(anonymous{}, "/api/v1/openapi.yaml"); a.status != 200 || string(a.body) != string(Document) || a.header.Get("Content-Type") != "application/yaml" {
		t.Errorf("document: %d %v", a.status, a.header)
	}
	r.get(r.client("press", "plant", ScopeRead), "/api/v1/uns/plant/history")
	body := string(r.get(anonymous{}, "/metrics").body)
	for _, want := range []string{`maestrohub_uns_http_requests_total{code="200",route="GET /api/v1/uns/{workspace}/history"} 1`, `maestrohub_uns_historian_reads_total{result="ok"} 1`} {
		if !strings.Contains(body, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
}

func TestRequestsBeyondTheBoundAreRefusedAndProbesAreNot(t *testing.T) {
	r := newRig(t, func(o *Options) { o.MaxRequests = 1 })
	c := r.client("press", "plant", ScopeRead, ScopeWrite)
	// A request that holds its place: its header is there, its body is not.
	body := `{"values": [{"topic": "a", "value": 1}]}`
	held, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	fatal(t, err)
	defer held.Close()
	credential := base64.StdEncoding.EncodeToString([]byte(c.id + ":" + c.secret))
	_, err = fmt.Fprintf(held, "POST /api/v1/uns/plant/values HTTP/1.1\r\nHost: x\r\nAuthorization: Basic %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
		credential, len(body))
	fatal(t, err)
	var a answer
	for deadline := time.Now().Add(10 * time.Second); a.status != 503 && time.Now().Before(deadline); {
		a = r.get(c, "/api/v1/uns/plant/history")
	}
	if code, detail := a.problem(); a.status != 503 || code != codeBusy || !strings.HasPrefix(detail, "1 requests") {
		t.Errorf("beside a request that is held: %d %s, want 503 %s", a.status, a.body, codeBusy)
	}
	if a := r.get(anonymous{}, "/health/ready"); a.status != 200 {
		t.Errorf("ready while busy: %d", a.status)
	}
	_, err = io.WriteString(held, body)
	fatal(t, err)
	response, err := http.ReadResponse(bufio.NewReader(held), nil)
	fatal(t, err)
	defer response.Body.Close()
	if response.StatusCode != 200 {
		t.Errorf("the request that was held: %d, want 200", response.StatusCode)
	}
	if a := r.get(c, "/api/v1/uns/plant/history"); a.status != 200 {
		t.Errorf("afterwards: %d %s", a.status, a.body)
	}
}

func TestRejectsShowAClientItsOwnAndAManagerTheWorkspaces(t *testing.T) {
	r := newRig(t)
	a, b := r.client("a", "plant", ScopeRead, ScopeWrite), r.client("b", "plant", ScopeRead, ScopeWrite)
	manager, stranger := r.client("m", "plant", ScopeRead, ScopeSettings), r.client("s", "other", ScopeRead, ScopeSettings)
	for i := range 6 {
		as := credential(a)
		if i%2 == 1 {
			as = b
		}
		r.post(as, "/api/v1/uns/plant/values", `{"values": [{"topic": "line1/temperature", "value": "hot"}]}`).want(t, 422, codeRefused)
	}
	feed := func(as credential, path string) (clients string, last uint64) {
		t.Helper()
		var body struct {
			Rejects []reject
			Last    uint64
		}
		r.get(as, path).into(t, &body)
		for _, j := range body.Rejects {
			clients += j.Client
			if j.Reason != "schema" || j.Detail == "" || j.Time.IsZero() || !strings.HasSuffix(j.Topic, "/line1/temperature") {
				t.Errorf("reject %+v", j)
			}
		}
		return clients, body.Last
	}
	if got, last := feed(a, "/api/v1/uns/plant/rejects"); got != "aaa" || last != 6 {
		t.Errorf("a client sees %q up to %d, want its own three up to 6", got, last)
	}
	got, last := feed(manager, "/api/v1/uns/plant/rejects?limit=4")
	if got != "abab" || last != 4 {
		t.Errorf("the manager's first page is %q up to %d, want abab up to 4", got, last)
	}
	if got, last := feed(manager, "/api/v1/uns/plant/rejects?after=4"); got != "ab" || last != 6 {
		t.Errorf("the manager's second page is %q up to %d, want ab up to 6", got, last)
	}
	if got, last := feed(stranger, "/api/v1/uns/other/rejects"); got != "" || last != 0 {
		t.Errorf("another workspace's manager sees %q", got)
	}
	r.get(a, "/api/v1/uns/plant/rejects?after=-1").want(t, 400, codeParameter, "after", "-1")
}

func TestConnectionsShowAClientItsOwnAndAManagerTheWorkspaces(t *testing.T) {
	r := newRig(t)
	a, manager := r.client("a", "plant", ScopeRead), r.client("m", "plant", ScopeRead, ScopeSettings)
	r.connected = []Connection{{ClientID: "z", Client: "b", Protocol: "5"}, {ClientID: "y", Client: "a", Protocol: "3.1.1"}}
	var body struct{ Connections []Connection }
	if r.get(a, "/api/v1/uns/plant/connections").into(t, &body); len(body.Connections) != 1 || body.Connections[0].ClientID != "y" {
		t.Errorf("a client sees %+v, want its own", body.Connections)
	}
	if r.get(manager, "/api/v1/uns/plant/connections").into(t, &body); len(body.Connections) != 2 || body.Connections[0].ClientID != "y" {
		t.Errorf("a manager sees %+v, want both in order", body.Connections)
	}
}

func TestReadinessTellsAnybodyWhyAndNotWhere(t *testing.T) {
	r := newRig(t)
	for text, want := range map[string]string{
		"shared state: write journal in /var/lib/uns/state: no space left on device": "shared state: write journal in (see the log): no space left on device",
		`open "/data/history/000004.sst": damaged` + "\n<corruption detail carrier>": `open "(see the log)": damaged`,
		"/data is full": "(see the log) is full",
		"dial tcp 10.1.2.3:4222: connection refused": "dial tcp (see the log): connection refused",
		"dial tcp [::1]:4222: refused":               "dial tcp (see the log): refused",
		"nats://uns:secret@nats.plant:4222 is gone":  "(see the log) is gone",
		"an input/output error; 3/4 links are up":    "an input/output error; 3/4 links are up",
	} {
		down := errors.New(text)
		r.ready.Store(&down)
		var h health
		if r.get(anonymous{}, "/health/ready").into(t, &h); h.Reason != NotReadyPrefix+want {
			t.Errorf("%q: said %q, want %q", text, h.Reason, NotReadyPrefix+want)
		}
	}
}
