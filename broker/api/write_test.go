package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"maestrohub.io/uns/broker/ingest"
)

type written struct{ Results []writeResult }

func TestAWriteIsAnswered200OnlyWhenEveryValueIsStored(t *testing.T) {
	r := newRig(t)
	c := r.client("press", "plant", ScopeRead, ScopeWrite)
	a := r.post(c, "/api/v1/uns/plant/values", `{"values": [
		{"topic": "line1/temperature", "value": 21.5, "timestamp": "2026-01-31T08:00:00Z", "quality": "good"},
		{"topic": "line1/temperature", "value": 22, "timestamp": 1769846401000, "qos": 2, "expirySeconds": 60},
		{"topic": "line1/state", "value": {"value": 1, "running": true}},
		{"topic": "line1/note", "value": null},
		{"topic": "line1/picture", "opaque": "AAEC"}]}`)
	var w written
	if a.into(t, &w); a.status != 200 || len(w.Results) != 5 {
		t.Fatalf("answer %d %s, want 200 and 5 results", a.status, a.body)
	}
	for _, result := range w.Results {
		if result.Stored == nil || !*result.Stored {
			t.Errorf("result %+v, want stored", result)
		}
	}
	var h page
	r.get(c, "/api/v1/uns/plant/history").into(t, &h)
	got := map[string]string{}
	for _, v := range h.Values {
		got[v.Topic] += string(v.Value)
		if v.Opaque != nil {
			got[v.Topic] += fmt.Sprint(*v.Opaque)
		}
	}
	want := map[string]string{"line1/temperature": "21.522", "line1/state": `{"value":1,"running":true}`, "line1/note": "null", "line1/picture": "[0 1 2]"}
	if strings.ReplaceAll(fmt.Sprint(got), `": `, `":`) != strings.ReplaceAll(fmt.Sprint(want), `": `, `":`) {
		if got["line1/state"] = strings.ReplaceAll(got["line1/state"], " ", ""); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("history holds %v, want %v", got, want)
		}
	}
}

func TestTheSameValueWithItsTimestampIsStoredOnce(t *testing.T) {
	r := newRig(t)
	c := r.client("press", "plant", ScopeRead, ScopeWrite)
	for range 3 {
		if a := r.post(c, "/api/v1/uns/plant/values", `{"values": [{"topic": "a", "value": 1, "timestamp": 1769846400000}]}`); a.status != 200 {
			t.Fatalf("answer %d %s", a.status, a.body)
		}
	}
	var h page
	if r.get(c, "/api/v1/uns/plant/history?topic=a").into(t, &h); len(h.Values) != 1 {
		t.Fatalf("history holds %d values, want 1", len(h.Values))
	}
}

func TestARefusedWriteSaysWhichValueAndWhy(t *testing.T) {
	r := newRig(t)
	c := r.client("press", "plant", ScopeRead, ScopeWrite)
	limited, err := r.access.Add(t.Context(), clientOf("narrow", "plant", []string{"line2/#"}, ScopeWrite), "")
	fatal(t, err)
	cases := []struct {
		name, body string
		as         credential
		status     int
		reason     string
	}{
		{"hard range", `{"topic": "line1/temperature", "value": 151}`, c, 422, "range"},
		{"type", `{"topic": "line1/temperature", "value": "hot"}`, c, 422, "schema"},
		{"timestamp", `{"topic": "line1/temperature", "value": 1, "timestamp": "yesterday"}`, c, 422, "payload"},
		{"quality", `{"topic": "line1/temperature", "value": 1, "quality": 256}`, c, 422, "payload"},
		{"wildcard in a topic", `{"topic": "line1/+", "value": 1}`, c, 422, "topic_invalid"},
		{"reserved level", `{"topic": "_errors/x", "value": 1}`, c, 403, "not_inbox"},
		{"no grant", `{"topic": "line1/temperature", "value": 1}`, basic{"narrow", limited}, 403, "not_granted"},
		{"size", `{"topic": "line1/picture", "opaque": "` + strings.Repeat("AAAA", 10) + `"}`, c, 413, "too_large"},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			a := r.post(k.as, "/api/v1/uns/plant/values", `{"values": [`+k.body+`]}`)
			var w written
			a.into(t, &w)
			a.want(t, k.status, codeRefused, k.reason)
			if len(w.Results) != 1 || *w.Results[0].Stored || w.Results[0].Reason != k.reason {
				t.Errorf("results %+v, want one refused for %q", w.Results, k.reason)
			}
		})
	}
}

func TestAMixedWriteStoresTheGoodOnesAndReportsTheGravest(t *testing.T) {
	r := newRig(t)
	c := r.client("press", "plant", ScopeRead, ScopeWrite)
	a := r.post(c, "/api/v1/uns/plant/values", `{"values": [{"topic": "a", "value": 1}, {"topic": "line1/temperature", "value": 1e9}, {"topic": "_alerts/a", "value": 1}, {"topic": "b", "value": 2}]}`)
	a.want(t, http.StatusForbidden, codeRefused, "2 of 4", "values[2]")
	var w written
	a.into(t, &w)
	for i, stored := range []bool{true, false, false, true} {
		if *w.Results[i].Stored != stored {
			t.Errorf("result %d %+v, want stored %t", i, w.Results[i], stored)
		}
	}
	var h page
	if r.get(c, "/api/v1/uns/plant/history").into(t, &h); len(h.Values) != 2 {
		t.Errorf("history holds %d values, want the 2 stored ones", len(h.Values))
	}
}

func TestAWriteTheHistorianCannotTakeIs503(t *testing.T) {
	r := newRig(t)
	c := r.client("press", "plant", ScopeRead, ScopeWrite)
	r.historian.down.Store(true)
	a := r.post(c, "/api/v1/uns/plant/values", `{"values": [{"topic": "a", "value": 1}]}`)
	a.want(t, http.StatusServiceUnavailable, codeRefused, "historian_unavailable")
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After with a 503")
	}
	r.historian.down.Store(false)
	if a := r.post(c, "/api/v1/uns/plant/values", `{"values": [{"topic": "a", "value": 1}]}`); a.status != 200 {
		t.Errorf("once the historian is back: %d %s, want 200", a.status, a.body)
	}
}

func TestABodyThatIsWrongStoresNothing(t *testing.T) {
	r := newRig(t, func(o *Options) { o.MaxWriteBytes = 1000 })
	c := r.client("press", "plant", ScopeRead, ScopeWrite)
	many := strings.Repeat(`{"topic":"a","value":1},`, 1001)
	cases := []struct {
		name, contentType, body string
		status                  int
		code                    string
		words                   []string
	}{
		{"media type", "text/plain", `{}`, 415, codeMediaType, []string{"text/plain", "application/json"}},
		{"too large", "application/json", `{"values": [` + many, 413, codeTooLarge, []string{"1000"}},
		{"not JSON", "application/json", `{"values": [}`, 400, codeBody, []string{"byte"}},
		{"cut short", "application/json", `{"values": [`, 400, codeBody, nil},
		{"empty", "application/json", ``, 400, codeBody, []string{"empty"}},
		{"two", "application/json", `{"values": []} {}`, 400, codeBody, []string{"more than one"}},
		{"no values", "application/json", `{"values": []}`, 400, codeBody, []string{"0", "1000"}},
		{"unknown member", "application/json", `{"values": [{"topic": "a", "value": 1, "timestmap": 5}]}`, 400, codeBody, []string{"timestmap"}},
		{"no topic", "application/json", `{"values": [{"topic": "a", "value": 1}, {"value": 1}]}`, 400, codeBody, []string{"values[1]", "topic"}},
		{"no value", "application/json", `{"values": [{"topic": "a", "value": 1}, {"topic": "a"}]}`, 400, codeBody, []string{"values[1]", "value and opaque"}},
		{"QoS", "application/json", `{"values": [{"topic": "a", "value": 1, "qos": 0}]}`, 400, codeBody, []string{"qos 0", "1 or 2"}},
		{"expiry", "application/json", `{"values": [{"topic": "a", "value": 1, "expirySeconds": 0}]}`, 400, codeBody, []string{"expirySeconds 0"}},
		{"base64", "application/json", `{"values": [{"topic": "a", "opaque": "*"}]}`, 400, codeBody, []string{"base64"}},
		{"timed opaque", "application/json", `{"values": [{"topic": "a", "opaque": "AA==", "timestamp": 1}]}`, 400, codeBody, []string{"opaque"}},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			r.call(c, "POST", "/api/v1/uns/plant/values", k.contentType, k.body).want(t, k.status, k.code, k.words...)
		})
	}
	var h page
	if r.get(c, "/api/v1/uns/plant/history").into(t, &h); len(h.Values) != 0 {
		t.Errorf("history holds %d values, want none", len(h.Values))
	}
}

func TestAWriteSaysOfARefusedValueWhetherItIsStored(t *testing.T) {
	yes, no := true, false
	cases := []struct {
		outcome ingest.Outcome
		status  int
		stored  *bool
		cleared bool
	}{
		{ingest.Outcome{}, 200, &yes, false},
		{ingest.Outcome{Cleared: true}, 200, &no, true},
		{ingest.Outcome{Refusal: ingest.LogTimeout, Detail: "x", Kept: ingest.Stored}, 503, &yes, false},
		{ingest.Outcome{Refusal: ingest.LogRefused, Detail: "x", Kept: ingest.Stored}, 503, &yes, false},
		{ingest.Outcome{Refusal: ingest.RetainedTimeout, Detail: "x", Kept: ingest.Stored}, 503, &yes, false},
		{ingest.Outcome{Refusal: ingest.HistorianUnavailable, Detail: "x", Kept: ingest.MaybeStored}, 503, nil, false},
		{ingest.Outcome{Refusal: ingest.NoRoom, Detail: "x"}, 503, &no, false},
		{ingest.Outcome{Refusal: ingest.TooOld, Detail: "x"}, 422, &no, false},
	}
	values := &fixed{}
	r := newRig(t, func(o *Options) { o.Values = values })
	c := r.client("press", "plant", ScopeWrite)
	for _, k := range cases {
		values.outcome = k.outcome
		a := r.post(c, "/api/v1/uns/plant/values", `{"values": [{"topic": "a", "value": 1}]}`)
		var w written
		a.into(t, &w)
		if a.status != k.status || len(w.Results) != 1 {
			t.Errorf("%+v: answer %d %s, want %d and one result", k.outcome, a.status, a.body, k.status)
			continue
		}
		got := w.Results[0]
		if (got.Stored == nil) != (k.stored == nil) || got.Stored != nil && *got.Stored != *k.stored || got.Cleared != k.cleared || got.Reason != k.outcome.Refusal.Reason() {
			t.Errorf("%+v: answer %s", k.outcome, a.body)
		}
	}
}

// fixed gives every publish one outcome.
type fixed struct{ outcome ingest.Outcome }

func (f *fixed) PublishBatch(batch []ingest.Publish) {
	for _, p := range batch {
		p.Done.Complete(p.Slot, f.outcome)
		p.Done.Flush()
	}
}

func (f *fixed) Rejects(string, uint64, int) []ingest.Reject { return nil }

func TestAnEmptyPayloadClearsAndIsNotStored(t *testing.T) {
	r := newRig(t)
	c := r.client("press", "plant", ScopeRead, ScopeWrite)
	for _, v := range []string{`"value": 21`, `"opaque": ""`} {
		a := r.post(c, "/api/v1/uns/plant/values", `{"values": [{"topic": "line1/temperature", `+v+`}]}`)
		var w written
		if a.into(t, &w); a.status != 200 || *w.Results[0].Stored == w.Results[0].Cleared || w.Results[0].Cleared != strings.Contains(v, "opaque") {
			t.Errorf("%s: answer %d %s", v, a.status, a.body)
		}
	}
	var h page
	if r.get(c, "/api/v1/uns/plant/retained").into(t, &h); len(h.Values) != 0 {
		t.Errorf("%d retained, want none", len(h.Values))
	}
	if r.get(c, "/api/v1/uns/plant/history").into(t, &h); len(h.Values) != 1 {
		t.Errorf("history holds %d values, want 1", len(h.Values))
	}
}
