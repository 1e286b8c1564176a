package api

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// stored writes n values a second apart from 2026-01-31T08:00:00Z.
func (r *rig) stored(as credential, topic string, n int) {
	r.t.Helper()
	var values []string
	for i := range n {
		at := time.Date(2026, 1, 31, 8, 0, i, 0, time.UTC)
		values = append(values, fmt.Sprintf(`{"topic": %q, "value": %d, "timestamp": %q}`, topic, i, at.Format(time.RFC3339)))
	}
	if a := r.post(as, "/api/v1/uns/plant/values", `{"values": [`+strings.Join(values, ",")+`]}`); a.status != 200 {
		r.t.Fatalf("write: %d %s", a.status, a.body)
	}
}

func (r *rig) values(as credential, query string) (found []string, next string) {
	r.t.Helper()
	a := r.get(as, "/api/v1/uns/plant/history?"+query)
	var h page
	if a.into(r.t, &h); a.status != 200 {
		r.t.Fatalf("history?%s: %d %s", query, a.status, a.body)
	}
	for _, v := range h.Values {
		found = append(found, string(v.Value))
	}
	return found, h.Next
}

func TestHistoryIsReadByTopicTimeAndOrder(t *testing.T) {
	r := newRig(t)
	c := r.client("press", "plant", ScopeRead, ScopeWrite)
	r.stored(c, "line1/a", 5)
	r.stored(c, "line2/a", 1)
	for query, want := range map[string]string{
		"topic=line1/a": "0 1 2 3 4",
		"topic=line1/a&from=2026-01-31T08:00:01Z&to=2026-01-31T08:00:03Z": "1 2",
		"topic=line1/a&from=2026-01-31T09:00:01%2B01:00&to=1769846403000": "1 2",
		"topic=line1/a&order=newest&limit=2":                              "4 3",
		"topic=%2B/a&to=2026-01-31T08:00:01Z":                             "0 0",
		"topic=line2/%23":                                                 "0",
		"topic=nothing":                                                   "",
	} {
		if got, _ := r.values(c, query); strings.Join(got, " ") != want {
			t.Errorf("history?%s: %q, want %q", query, strings.Join(got, " "), want)
		}
	}
}

func TestPagesOfHistoryJoinWithoutGapOrRepeat(t *testing.T) {
	r := newRig(t)
	c := r.client("press", "plant", ScopeRead, ScopeWrite)
	r.stored(c, "line1/a", 25)
	for _, order := range []string{"oldest", "newest"} {
		var all []string
		for next, n := "", 0; n < 10; n++ {
			got, more := r.values(c, "topic=line1/a&limit=10&order="+order+"&after="+next)
			if all, next = append(all, got...), more; next == "" {
				break
			}
		}
		if len(all) != 25 {
			t.Errorf("%s first: %d values over the pages, want 25", order, len(all))
		}
	}
}

func TestHistoryShowsOnlyWhatTheClientMayRead(t *testing.T) {
	r := newRig(t)
	c := r.client("press", "plant", ScopeRead, ScopeWrite)
	r.stored(c, "line1/a", 1)
	r.stored(c, "line2/a", 2)
	narrow := clientOf("narrow", "plant", nil, ScopeRead)
	narrow.Subscribe = []string{"line2/#"}
	secret, err := r.access.Add(t.Context(), narrow, "")
	fatal(t, err)
	if got, _ := r.values(basic{"narrow", secret}, "topic=%23"); len(got) != 2 {
		t.Errorf("history shows %v, want the 2 values of line2 only", got)
	}
}

func TestAHistoryQueryThatIsWrongNamesTheParameter(t *testing.T) {
	r := newRig(t)
	c := r.client("press", "plant", ScopeRead)
	for query, words := range map[string][]string{
		"topic=a/%23/b":                  {"topic", "a/#/b"},
		"from=yesterday":                 {"from", "yesterday", "RFC 3339"},
		"to=-1":                          {"to", "-1"},
		"to=9999999999999999":            {"to", "2262"},
		"from=2026-01-31T08:00:00Z&to=1": {"from", "before to"},
		"order=up":                       {"order", "up", "oldest", "newest"},
		"limit=0":                        {"limit", "0", "1 to 1000"},
		"limit=1001":                     {"limit", "1001"},
		"limit=ten":                      {"limit", "ten"},
		"form=1":                         {"form", "unknown", "from"},
		"limit=1&limit=2":                {"limit", "2 times"},
		"after=nonsense":                 nil,
		"topic=%zz":                      {"query"},
	} {
		r.get(c, "/api/v1/uns/plant/history?"+query).want(t, 400, codeParameter, words...)
	}
}

func TestHistoryIs503WhileTheHistorianCannotBeRead(t *testing.T) {
	r := newRig(t)
	c := r.client("press", "plant", ScopeRead)
	r.historian.down.Store(true)
	if a := r.get(c, "/api/v1/uns/plant/history"); a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After with a 503")
	} else {
		a.want(t, 503, codeUnavailable)
	}
}

func TestRetainedShowsTheLastValueOfRetainingTopics(t *testing.T) {
	r := newRig(t)
	c := r.client("press", "plant", ScopeRead, ScopeWrite)
	for _, v := range []string{"20", "21"} {
		if a := r.post(c, "/api/v1/uns/plant/values", `{"values": [{"topic": "line1/temperature", "value": `+v+`}, {"topic": "line1/other", "value": 1}]}`); a.status != 200 {
			t.Fatalf("write: %d %s", a.status, a.body)
		}
	}
	var p page
	if r.get(c, "/api/v1/uns/plant/retained").into(t, &p); len(p.Values) != 1 || string(p.Values[0].Value) != "21" || p.Values[0].Topic != "line1/temperature" {
		t.Errorf("retained %+v, want 21 on line1/temperature", p.Values)
	}
	if r.get(c, "/api/v1/uns/plant/retained?topic=line2/%23").into(t, &p); len(p.Values) != 0 {
		t.Errorf("retained below line2 %+v, want none", p.Values)
	}
	if r.get(c, "/api/v1/uns/plant/retained?after=line1/temperature").into(t, &p); len(p.Values) != 0 {
		t.Errorf("retained after the last %+v, want none", p.Values)
	}
	r.get(c, "/api/v1/uns/plant/retained?order=newest").want(t, 400, codeParameter, "order")
}
