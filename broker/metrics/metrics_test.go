package metrics

import (
	"io"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
)

func TestEveryFieldIsMadeAndRegistered(t *testing.T) {
	m := New()
	fields := 0
	v := reflect.ValueOf(m).Elem()
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Name
		if !v.Type().Field(i).IsExported() {
			continue
		}
		if by, ok := f.Interface().(ByType); ok {
			if slices.Contains(by[:], nil) {
				t.Errorf("%s misses a packet type", name)
			}
			fields++
			continue
		}
		if f.IsNil() {
			t.Errorf("%s is nil", name)
			continue
		}
		c, ok := f.Interface().(prometheus.Collector)
		if !ok {
			t.Errorf("%s is a %s", name, f.Type())
		} else if !m.registry.Unregister(c) {
			t.Errorf("%s is not registered", name)
		}
		fields++
	}
	if sessions := 1; fields != len(m.rows)+sessions { // the two states of sessions are one row
		t.Errorf("%d fields and %d rows", fields, len(m.rows))
	}
}

func TestNamesAreUniqueAndDocumented(t *testing.T) {
	valid := regexp.MustCompile(`^maestrohub_uns_[a-z]+(_[a-z]+)*$`)
	seen := make(map[string]bool)
	for _, r := range New().rows {
		if seen[r.name] {
			t.Errorf("%s is there twice", r.name)
		}
		seen[r.name] = true
		if !valid.MatchString(r.name) {
			t.Errorf("%s is no name of ours", r.name)
		}
		if !strings.HasSuffix(r.help, ".") || strings.ContainsAny(r.help, "|\n") {
			t.Errorf("%s: its help is not a sentence: %q", r.name, r.help)
		}
		if (r.kind == "counter") != strings.HasSuffix(r.name, "_total") {
			t.Errorf("%s is a %s", r.name, r.kind)
		}
		for _, l := range r.labels {
			if !regexp.MustCompile(`^[a-z]+$`).MatchString(l.name) {
				t.Errorf("%s: label %q", r.name, l.name)
			}
			for i, v := range l.values {
				if slices.Contains(l.values[:i], v) {
					t.Errorf("%s: %s=%q is there twice", r.name, l.name, v)
				}
			}
		}
	}
}

// What the operators' guide calls them.
func TestTheGuidesMetricsAreThere(t *testing.T) {
	reference := Reference()
	for _, name := range []string{
		"uns_broker_connect_refused_total", "uns_broker_messages_dropped_total", "uns_broker_wills_withheld_total",
		"uns_broker_subscribe_index_wait_timeouts_total", "uns_broker_session_log_values_missed_total",
	} {
		if !strings.Contains(reference, "| `maestrohub_"+name+"` |") {
			t.Errorf("no %s", name)
		}
	}
	m := New()
	for _, reason := range []string{"fenced", "client_id_in_use", "max_clients", "credential_check_unavailable"} {
		if !m.ConnectRefused.DeleteLabelValues(reason) {
			t.Errorf("connect_refused_total has no reason %q from the start", reason)
		}
	}
}

func TestLintFindsNothing(t *testing.T) {
	m := New()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, prefix) {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

func TestAReadingIsAskedAtEachScrapeAndAbsentUntilKnown(t *testing.T) {
	m := New()
	if values := collect(t, m.RetainedMessages); len(values) != 0 {
		t.Errorf("reads %v before anyone keeps it", values)
	}
	held, known := 3.0, true
	m.RetainedMessages.FromKnown(func() (float64, bool) { return held, known })
	for _, want := range []float64{3, 4} {
		held = want
		if got := collect(t, m.RetainedMessages); len(got) != 1 || got[0] != want {
			t.Errorf("reads %v, want %v", got, want)
		}
	}
	known = false
	if values := collect(t, m.RetainedMessages); len(values) != 0 {
		t.Errorf("reads %v where nothing is known", values)
	}
}

// collect is what a scrape of one reading would carry.
func collect(t *testing.T, r *Reading) []float64 {
	ch := make(chan prometheus.Metric, 8)
	r.Collect(ch)
	close(ch)
	var values []float64
	for metric := range ch {
		var d dto.Metric
		if err := metric.Write(&d); err != nil {
			t.Fatal(err)
		}
		values = append(values, d.GetGauge().GetValue())
	}
	return values
}

func TestHandlerServesEveryMetricAndTheProcess(t *testing.T) {
	m := New()
	m.PacketsReceived[3].Add(7)
	m.SessionsOnline.From(func() float64 { return 2 })
	m.SessionsOffline.From(func() float64 { return 1 })
	m.HTTPRequests.WithLabelValues("/health/ready", "200").Inc()
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`maestrohub_uns_broker_packets_received_total{type="publish"} 7`,
		`maestrohub_uns_broker_sessions{state="online"} 2`,
		`maestrohub_uns_broker_sessions{state="offline"} 1`,
		`maestrohub_uns_broker_connect_refused_total{reason="max_clients"} 0`,
		`maestrohub_uns_http_requests_total{code="200",route="/health/ready"} 1`,
		"go_goroutines ", "process_open_fds ", "go_build_info",
	} {
		if !strings.Contains(string(body), line) {
			t.Errorf("/metrics misses %s", line)
		}
	}
}

func BenchmarkCountAPacket(b *testing.B) {
	m := New()
	b.ReportAllocs()
	for b.Loop() {
		m.PacketsReceived[3].Inc()
		m.BytesReceived[3].Add(290)
	}
}
