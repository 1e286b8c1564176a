package alerts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

// promised are the alerts, in the order of the operators' guide.
var promised = []struct{ group, alert, severity string }{
	{"maestrohub.uns-ingest", "MaestroHubUNSIngestStoreUnavailable", "warning"},
	{"maestrohub.uns-ingest", "MaestroHubUNSIngestQuarantined", "warning"},
	{"maestrohub.uns-ingest", "MaestroHubUNSLiveMirrorDropping", "warning"},
	{"maestrohub.uns-broker-cluster", "MaestroHubUNSBrokerMeshLinksDown", "warning"},
	{"maestrohub.uns-broker-cluster", "MaestroHubUNSBrokerMeshValuesLost", "warning"},
	{"maestrohub.uns-broker-cluster", "MaestroHubUNSBrokerSessionLogValuesMissed", "warning"},
	{"maestrohub.uns-broker-cluster", "MaestroHubUNSBrokerSessionLogAppendsHeld", "warning"},
	{"maestrohub.uns-broker-cluster", "MaestroHubUNSBrokerSessionLogAppendsRefused", "warning"},
	{"maestrohub.uns-broker-cluster", "MaestroHubUNSBrokerSessionLogAppendsReordered", "warning"},
	{"maestrohub.uns-broker-cluster", "MaestroHubUNSBrokerSessionSubscriptionsKept", "critical"},
	{"maestrohub.uns-broker-cluster", "MaestroHubUNSBrokerRoutesLate", "warning"},
	{"maestrohub.uns-broker-cluster", "MaestroHubUNSBrokerClusterFormatUnreadable", "critical"},
}

// rule is one alert as its file has it.
type rule struct {
	Alert       string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string

	file, group string
	comment     string // above it
}

// ruleFiles are the plain files, as Prometheus loads them.
func ruleFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("rules/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no rule files in rules/: %v", err)
	}
	return files
}

func rules(t *testing.T) []rule {
	t.Helper()
	var all []rule
	for _, file := range ruleFiles(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var content struct {
			Groups []struct {
				Name  string
				Rules []yaml.Node
			}
		}
		if err := yaml.Unmarshal(text, &content); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, g := range content.Groups {
			for _, node := range g.Rules {
				r := rule{file: file, group: g.Name, comment: node.HeadComment}
				if err := node.Decode(&r); err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				all = append(all, r)
			}
		}
	}
	return all
}

func TestTheTwelveArePromisedAndThere(t *testing.T) {
	var got []string
	for _, r := range rules(t) {
		got = append(got, r.group+" "+r.Alert+" "+r.Labels["severity"])
	}
	var want []string
	for _, p := range promised {
		want = append(want, p.group+" "+p.alert+" "+p.severity)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("alerts:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// runbooks is where the plain files say the pages are; the chart says the address of
// its own version.
const runbooks = "https://maestrohub.io/uns/runbooks/"

func TestEveryAlertSaysWhatItIsWhomItHurtsAndWhatToDo(t *testing.T) {
	placeholder := regexp.MustCompile(`\{\{.*?\}\}`)
	for _, r := range rules(t) {
		if len(r.comment) < 150 {
			t.Errorf("%s: nothing above it argues for its expression, window and threshold", r.Alert)
		}
		if r.For == "" {
			t.Errorf("%s has no for", r.Alert)
		}
		if got, want := r.Labels["component"], strings.TrimSuffix(strings.TrimPrefix(r.group, "maestrohub."), "-cluster"); got != want {
			t.Errorf("%s: component %q, want %q", r.Alert, got, want)
		}
		for _, name := range []string{"summary", "description", "runbook_url"} {
			if r.Annotations[name] == "" {
				t.Errorf("%s has no %s", r.Alert, name)
			}
		}
		if got, want := r.Annotations["runbook_url"], runbooks+r.Alert+".md"; got != want {
			t.Errorf("%s: runbook_url %s, want %s", r.Alert, got, want)
		}
		if _, err := os.Stat("../runbooks/" + r.Alert + ".md"); err != nil {
			t.Errorf("%s has no page: %v", r.Alert, err)
		}
		// One line in a list of alerts: no figures or labels that change while it fires.
		if s := r.Annotations["summary"]; placeholder.MatchString(s) || len(s) > 100 || !strings.HasSuffix(s, ".") {
			t.Errorf("%s: summary %q", r.Alert, s)
		}
		d := r.Annotations["description"]
		if !strings.Contains(d, "{{ or $labels.pod $labels.instance }}") {
			t.Errorf("%s: the description does not say which replica", r.Alert)
		}
		for _, p := range placeholder.FindAllString(d, -1) {
			if p != "{{ or $labels.pod $labels.instance }}" {
				t.Errorf("%s: placeholder %s, whose label not every scrape has", r.Alert, p)
			}
		}
	}
}

// What makes a rule fire by mistake, or never: comparisons that are missing, rates of
// gauges, windows of few scrapes.
func TestExpressionsAreMadeWell(t *testing.T) {
	metrics := exported(t)
	for _, r := range rules(t) {
		expr := parse(t, r.Alert, r.Expr)
		if !compares(expr) {
			t.Errorf("%s: the expression compares nothing, so it fires whatever the value is", r.Alert)
		}
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			switch n := node.(type) {
			case *parser.AggregateExpr:
				t.Errorf("%s aggregates: which replica it is would be lost", r.Alert)
			case *parser.Call:
				if n.Func.Name != "increase" && n.Func.Name != "rate" {
					return nil
				}
				parser.Inspect(n.Args[0], func(node parser.Node, _ []parser.Node) error {
					switch s := node.(type) {
					case *parser.VectorSelector:
						if metrics[s.Name].kind != "counter" {
							t.Errorf("%s: %s of %s, which is a %s", r.Alert, n.Func.Name, s.Name, metrics[s.Name].kind)
						}
					case *parser.MatrixSelector:
						if s.Range.Minutes() < 4 {
							t.Errorf("%s: a window of %v has fewer than four scrapes of a minute", r.Alert, s.Range)
						}
					}
					return nil
				})
			}
			return nil
		})
		for _, name := range counters(expr, metrics) {
			// The window is how old a process may be whose first sample counts.
			if !strings.Contains(r.Expr, name+"[") || !regexp.MustCompile(`time\(\) - process_start_time_seconds < \d+`).MatchString(r.Expr) {
				if name != "maestrohub_uns_broker_cluster_members_gone_total" { // excuses, does not accuse
					t.Errorf("%s: %s is not looked at both ways: its steps, and a young replica's first sample", r.Alert, name)
				}
			}
		}
	}
}

// compares reports whether an expression gives nothing in normal operation.
func compares(e parser.Expr) bool {
	switch e := e.(type) {
	case *parser.ParenExpr:
		return compares(e.Expr)
	case *parser.BinaryExpr:
		switch {
		case e.Op == parser.LOR:
			return compares(e.LHS) && compares(e.RHS)
		case e.Op == parser.LAND:
			return compares(e.LHS) || compares(e.RHS)
		case e.Op == parser.LUNLESS:
			return compares(e.LHS)
		}
		return e.Op.IsComparisonOperator() && !e.ReturnBool
	}
	return false
}

// counters are those of ours that an expression names.
func counters(expr parser.Expr, metrics map[string]metric) (names []string) {
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok && metrics[s.Name].kind == "counter" && !slices.Contains(names, s.Name) {
			names = append(names, s.Name)
		}
		return nil
	})
	return names
}

func promtool(t *testing.T, arguments ...string) string {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatalf("promtool is needed, Debian's package prometheus has it: tools/setup/install")
	}
	out, err := exec.CommandContext(t.Context(), path, arguments...).CombinedOutput()
	if err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
	return string(out)
}

func TestPrometheusLoadsTheRules(t *testing.T) {
	out := promtool(t, append([]string{"check", "rules", "--lint=all", "--lint-fatal"}, ruleFiles(t)...)...)
	if !strings.Contains(out, "9 rules found") || !strings.Contains(out, "3 rules found") {
		t.Errorf("promtool found other rules:\n%s", out)
	}
}
