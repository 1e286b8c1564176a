package alerts_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"

	"maestrohub.io/uns/tests/contract"
)

// install renders the chart and returns the objects of a kind.
func install(t *testing.T, kind string, values map[string]any) (found []*contract.Object) {
	t.Helper()
	r, err := contract.Render(contract.Install{Chart: "../chart", Name: "plant", Namespace: "works", Values: values,
		APIs: []string{"monitoring.coreos.com/v1/PrometheusRule", "monitoring.coreos.com/v1/PodMonitor"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range r.Objects {
		if o.Text("kind") == kind {
			found = append(found, o)
		}
	}
	return found
}

// chartRules are the rules of the chart's PrometheusRule.
func chartRules(t *testing.T, alerts map[string]any) (all []rule) {
	t.Helper()
	alerts["enabled"] = true
	objects := install(t, "PrometheusRule", map[string]any{"alerts": alerts})
	if len(objects) != 1 {
		t.Fatalf("%d PrometheusRules, want 1", len(objects))
	}
	var spec struct {
		Spec yaml.Node
	}
	if err := yaml.Unmarshal(objects[0].YAML, &spec); err != nil {
		t.Fatal(err)
	}
	plain, err := yaml.Marshal(&spec.Spec)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, plain, 0o644); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", "--lint=all", "--lint-fatal", file)
	var content struct {
		Groups []struct {
			Name  string
			Rules []rule
		}
	}
	if err := yaml.Unmarshal(plain, &content); err != nil {
		t.Fatal(err)
	}
	for _, g := range content.Groups {
		for _, r := range g.Rules {
			r.group = g.Name
			all = append(all, r)
		}
	}
	return all
}

func TestTheChartInstallsTheRulesForItsOwnReplicasAlone(t *testing.T) {
	plain := map[string]rule{}
	for _, r := range rules(t) {
		plain[r.Alert] = r
	}
	got := chartRules(t, map[string]any{})
	if len(got) != len(plain) {
		t.Errorf("%d rules, want %d", len(got), len(plain))
	}
	for _, r := range got {
		want := plain[r.Alert]
		if r.group != want.group || r.For != want.For || r.Labels["severity"] != want.Labels["severity"] || r.Annotations["description"] != want.Annotations["description"] {
			t.Errorf("%s is not the plain file's: %+v", r.Alert, r)
		}
		if !strings.HasPrefix(r.Annotations["runbook_url"], "https://maestrohub.io/uns/v") || !strings.HasSuffix(r.Annotations["runbook_url"], "/runbooks/"+r.Alert+".md") {
			t.Errorf("%s: runbook_url %s names no version", r.Alert, r.Annotations["runbook_url"])
		}
		expr := parse(t, r.Alert, r.Expr)
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			s, ok := node.(*parser.VectorSelector)
			if !ok {
				return nil
			}
			own := map[string]string{}
			for _, m := range s.LabelMatchers {
				if m.Name != labels.MetricName {
					own[m.Name] = m.Type.String() + m.Value
				}
			}
			if len(own) != 2 || own["namespace"] != "=works" || own["pod"] != "=~plant-uns-[0-9]+" {
				t.Errorf("%s: %s is asked for of %v", r.Alert, s.Name, own)
			}
			s.LabelMatchers = slices.DeleteFunc(s.LabelMatchers, func(m *labels.Matcher) bool { return m.Name != labels.MetricName })
			return nil
		})
		if a, b := expr.String(), parse(t, r.Alert, want.Expr).String(); a != b {
			t.Errorf("%s: without what narrows it the expression is\n%s\nnot\n%s", r.Alert, a, b)
		}
	}
}

func TestWhatAnInstallationSaysOfItsAlerts(t *testing.T) {
	got := chartRules(t, map[string]any{"excludeRules": []any{"MaestroHubUNSBrokerRoutesLate"}, "ruleLabels": map[string]any{"team": "plant"},
		"runbookBaseURL": "https://wiki.example.com/uns/", "dashboardURL": "https://grafana.example.com/d/maestrohub-uns", "selector": `cluster="a"`})
	if len(got) != len(promised)-1 {
		t.Errorf("%d rules with one left out, want %d", len(got), len(promised)-1)
	}
	for _, r := range got {
		if r.Alert == "MaestroHubUNSBrokerRoutesLate" || r.Labels["team"] != "plant" || r.Labels["severity"] == "" ||
			r.Annotations["runbook_url"] != "https://wiki.example.com/uns/"+r.Alert+".md" || r.Annotations["dashboard_url"] != "https://grafana.example.com/d/maestrohub-uns" {
			t.Errorf("%+v", r)
		}
		if strings.Count(r.Expr, `{cluster="a"}`) != strings.Count(r.Expr, "{") {
			t.Errorf("%s: %s", r.Alert, r.Expr)
		}
	}
	if objects := install(t, "PrometheusRule", nil); len(objects) != 0 {
		t.Error("rules are installed that nobody asked for")
	}
}

func TestTheChartScrapesEachReplicaOnceAndBringsTheDashboard(t *testing.T) {
	values := map[string]any{"monitoring": map[string]any{"podMonitor": map[string]any{"enabled": true}, "dashboards": map[string]any{"enabled": true}}}
	monitors := install(t, "PodMonitor", values)
	if len(monitors) != 1 {
		t.Fatalf("%d PodMonitors, want 1", len(monitors))
	}
	endpoints, _ := monitors[0].Field("spec", "podMetricsEndpoints").([]any)
	if len(endpoints) != 1 || endpoints[0].(map[string]any)["port"] != "http" || endpoints[0].(map[string]any)["path"] != "/metrics" {
		t.Errorf("endpoints %v", endpoints)
	}
	// It selects the pods of the StatefulSet, and no others.
	sets := install(t, "StatefulSet", values)
	selector, _ := monitors[0].Field("spec", "selector", "matchLabels").(map[string]any)
	matched := 0
	for _, s := range sets {
		pods, _ := s.Field("spec", "template", "metadata", "labels").(map[string]any)
		all := len(selector) > 0
		for k, v := range selector {
			all = all && pods[k] == v
		}
		if all {
			matched++
			if s.Text("metadata", "name") != "plant-uns" {
				t.Errorf("pods of %s are scraped", s)
			}
		}
	}
	if matched != 1 {
		t.Errorf("the selector %v matches %d StatefulSets", selector, matched)
	}
	for _, o := range install(t, "ConfigMap", values) {
		if o.Text("metadata", "labels", "grafana_dashboard") == "1" {
			text, err := os.ReadFile("../chart/files/dashboards/uns-broker.json")
			if err != nil {
				t.Fatal(err)
			}
			if strings.TrimSpace(o.Text("data", "uns-broker.json")) != strings.TrimSpace(string(text)) {
				t.Error("the ConfigMap's dashboard is not the file")
			}
			return
		}
	}
	t.Error("no ConfigMap with the dashboard")
}
