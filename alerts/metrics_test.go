package alerts_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"maestrohub.io/uns/broker/metrics"
	"maestrohub.io/uns/tests/harness"
)

// metric is what may be said of one in an expression.
type metric struct {
	kind   string
	labels map[string][]string // values, none: any
}

// given are the labels a scrape adds; dashboards and rules may use no others.
var given = []string{"namespace", "pod"}

// exported are the metrics of a broker: its own by their reference, and those of the
// process by what a real one answers.
func exported(t *testing.T) map[string]metric {
	t.Helper()
	all := make(map[string]metric)
	row := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (\\w+) \\| (.*?) \\|")
	label := regexp.MustCompile("`(\\w+)`(?:: ([^;]*))?")
	for _, m := range row.FindAllStringSubmatch(metrics.Reference(), -1) {
		have := metric{kind: m[2], labels: map[string][]string{}}
		for _, l := range label.FindAllStringSubmatch(m[3], -1) {
			have.labels[l[1]] = nil
			if l[2] != "" {
				have.labels[l[1]] = strings.Split(l[2], ", ")
			}
		}
		add(all, m[1], have)
	}
	for name, m := range scrape(t) {
		if !strings.HasPrefix(name, "maestrohub_") {
			add(all, name, m)
		}
	}
	return all
}

// add adds a metric with the series a histogram has.
func add(all map[string]metric, name string, m metric) {
	if m.kind != "histogram" {
		all[name] = m
		return
	}
	bucket := metric{kind: "counter", labels: map[string][]string{"le": nil}}
	for l, v := range m.labels {
		bucket.labels[l] = v
	}
	all[name+"_bucket"] = bucket
	all[name+"_sum"] = metric{kind: "counter", labels: m.labels}
	all[name+"_count"] = metric{kind: "counter", labels: m.labels}
}

// scraped is one real answer of GET /metrics, kept.
var scraped map[string]metric

func scrape(t *testing.T) map[string]metric {
	t.Helper()
	if scraped != nil {
		return scraped
	}
	b := harness.Start(t, harness.Options{})
	status, body := b.Do(t, "", "GET", "/metrics", nil)
	if status != 200 {
		t.Fatalf("GET /metrics answered %d", status)
	}
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]metric)
	for name, f := range families {
		m := metric{kind: strings.ToLower(f.GetType().String()), labels: map[string][]string{}}
		for _, series := range f.GetMetric() {
			for _, l := range series.GetLabel() {
				m.labels[l.GetName()] = nil
			}
		}
		all[name] = m
	}
	scraped = all
	return all
}

// What a broker answers is what its reference says, kinds and labels included. What
// only a cluster exports is in tests/alerts.
func TestAScrapeHasWhatTheReferenceSays(t *testing.T) {
	reference := exported(t)
	ours := 0
	for name, m := range scrape(t) {
		if !strings.HasPrefix(name, "maestrohub_") {
			continue
		}
		ours++
		want, ok := reference[name]
		if m.kind == "histogram" {
			want, ok = reference[name+"_bucket"]
			want.kind = "histogram"
		}
		if !ok || want.kind != m.kind {
			t.Errorf("%s is a %s, the reference says %q", name, m.kind, want.kind)
		}
		for l := range m.labels {
			if _, ok := want.labels[l]; !ok {
				t.Errorf("%s has the label %s, which the reference does not have", name, l)
			}
		}
	}
	if ours < 55 {
		t.Errorf("the scrape has %d metrics of ours", ours)
	}
}

func parse(t *testing.T, where, expr string) parser.Expr {
	t.Helper()
	e, err := parser.ParseExpr(expr)
	if err != nil {
		t.Fatalf("%s: %v\n%s", where, err, expr)
	}
	return e
}

// checkMetrics says what an expression asks for that no broker exports.
func checkMetrics(t *testing.T, where string, expr parser.Expr, metrics map[string]metric) {
	t.Helper()
	known := map[string]bool{}
	for _, l := range given {
		known[l] = true
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		s, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		m, ok := metrics[s.Name]
		switch {
		case s.Name == "ALERTS":
			m = metric{labels: map[string][]string{"alertname": nil, "alertstate": nil, "severity": nil, "component": nil}}
		case !ok:
			t.Errorf("%s: no broker exports %s", where, s.Name)
			return nil
		}
		for l := range m.labels {
			known[l] = true
		}
		for _, matcher := range s.LabelMatchers {
			if matcher.Name == labels.MetricName || slices.Contains(given, matcher.Name) {
				continue
			}
			values, ok := m.labels[matcher.Name]
			if !ok {
				t.Errorf("%s: %s has no label %s", where, s.Name, matcher.Name)
			}
			if matcher.Type == labels.MatchEqual && values != nil && !slices.Contains(values, matcher.Value) {
				t.Errorf("%s: %s has no %s=%q, but %q", where, s.Name, matcher.Name, matcher.Value, values)
			}
		}
		return nil
	})
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		var names []string
		switch n := node.(type) {
		case *parser.AggregateExpr:
			names = n.Grouping
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				names = n.VectorMatching.MatchingLabels
			}
		}
		for _, l := range names {
			if !known[l] {
				t.Errorf("%s: nothing in it has a label %s", where, l)
			}
		}
		return nil
	})
}

func TestEveryMetricAndLabelOfAnAlertIsExported(t *testing.T) {
	metrics := exported(t)
	for _, r := range rules(t) {
		checkMetrics(t, r.Alert, parse(t, r.Alert, r.Expr), metrics)
	}
}
