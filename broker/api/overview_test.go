package api

import (
	"context"
	"strings"
	"testing"
	"time"
)

func testOverview(_ context.Context, workspace string) Overview {
	behind, size, ends := uint64(7), int64(4096), time.Now()
	counters := Counters{ConnectsRefused: map[string]float64{"fenced": 2}, ValuesRefused: map[string]float64{}, Disconnected: map[string]float64{}}
	report := Report{Replica: "a", At: ends, Started: ends, Version: "test", Ready: true, Store: StoreStatus{Kind: "jetstream"},
		Historian: HistorianStatus{Kind: "timescale", Available: true}, Limits: []LimitStatus{{Name: "maxClients", Maximum: 5000}}, Counters: counters}
	return Overview{At: time.Now(), Replica: "a", MemberTTLSeconds: 10, Expected: 3,
		Replicas: []ReplicaStatus{{Replica: "a", Phase: "serving", Link: "self", Report: &report}, {Replica: "b", Phase: "fenced", Link: "down", LinkReason: "refused", ReportError: "not linked"}},
		Shared: &Shared{Owners: map[string]int{"a": 1}, Persistent: 2, Offline: 1, MaxOffline: 100,
			Sessions: []SharedSession{{ClientID: "hmi", Client: workspace, Behind: &behind, Expires: &ends}, {ClientID: "new", Client: workspace}},
			Logs:     []SharedLog{{Workspace: workspace, Bytes: &size, MaxBytes: 1 << 20}, {Workspace: "other", MaxBytes: 1}}}}
}

func TestTheOverviewIsThatOfTheCallersWorkspaceAndNeedsTheScope(t *testing.T) {
	r := newRig(t)
	var o Overview
	if r.get(r.client("admin", "plant", ScopeSettings), "/api/v1/system/uns/broker").into(t, &o); o.Replica != "a" || len(o.Replicas) != 2 || o.Expected != 3 || o.Shared.Sessions[0].Client != "plant" {
		t.Errorf("overview %+v", o)
	}
	r.get(r.client("reader", "plant", ScopeRead), "/api/v1/system/uns/broker").want(t, 403, codeScope, ScopeSettings)
	unread := newRig(t, func(o *Options) {
		o.Overview = func(context.Context, string) Overview {
			return Overview{Replicas: []ReplicaStatus{}, SharedError: "NATS is away"}
		}
	})
	if body := string(unread.get(unread.client("admin", "plant", ScopeSettings), "/api/v1/system/uns/broker").body); !strings.Contains(body, `"shared":null,"sharedError":"NATS is away"`) {
		t.Errorf("without the store: %s", body)
	}
}

func TestThePageIsServedWithItsFilesAndNothingElse(t *testing.T) {
	r := newRig(t)
	for path, kind := range map[string]string{"/": "text/html", "/page/page.js": "text/javascript", "/page/page.css": "text/css", "/page/icon.svg": "image/svg+xml"} {
		a := r.undocumented(anonymous{}, path)
		if a.status != 200 || !strings.HasPrefix(a.header.Get("Content-Type"), kind) || !strings.Contains(a.header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: %d %v, want 200, %s and the policy", path, a.status, a.header, kind)
		}
	}
	for _, path := range []string{"/page/", "/page/no.js", "/page/..%2froutes.go", "/index.html"} {
		if a := r.undocumented(anonymous{}, path); a.status != 404 || !strings.HasPrefix(a.header.Get("Content-Type"), "application/problem+json") {
			t.Errorf("%s: %d %s, want 404 as a problem", path, a.status, a.header.Get("Content-Type"))
		}
	}
}
