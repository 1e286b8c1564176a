package alerts_test

import (
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// unit is one promtool test file.
type unit struct {
	RuleFiles []string `yaml:"rule_files"`
	Tests     []struct {
		Name  string
		Rules []struct {
			Alert  string `yaml:"alertname"`
			Expect []struct {
				Labels      map[string]string `yaml:"exp_labels"`
				Annotations map[string]string `yaml:"exp_annotations"`
			} `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
	}
}

// Each alert is shown to fire and to resolve, to stay silent just below, in a rolling
// restart and where its series never existed; with its labels and its words.
func TestEveryAlertIsTestedFromAllSides(t *testing.T) {
	var files []string
	for _, r := range rules(t) {
		file := r.Alert + ".test.yaml"
		files = append(files, file)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Errorf("%s has no promtool test: %v", r.Alert, err)
			continue
		}
		var u unit
		if err := yaml.Unmarshal(text, &u); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if len(u.RuleFiles) != len(ruleFiles(t)) {
			t.Errorf("%s does not load all rules: another alert that fires along would not be seen", file)
		}
		resolves, silent, names := false, 0, ""
		for _, c := range u.Tests {
			names += c.Name + "\n"
			fires := false
			for n, at := range c.Rules {
				if at.Alert != r.Alert {
					t.Errorf("%s, %q is about %s", file, c.Name, at.Alert)
				}
				resolves = resolves || fires && len(at.Expect) == 0 && n > 0
				fires = fires || len(at.Expect) > 0
				for _, e := range at.Expect {
					for k, v := range r.Labels {
						if e.Labels[k] != v {
							t.Errorf("%s, %q: label %s=%q asserted, the rule has %q", file, c.Name, k, e.Labels[k], v)
						}
					}
					if len(e.Annotations) != len(r.Annotations) {
						t.Errorf("%s, %q asserts %d annotations of %d", file, c.Name, len(e.Annotations), len(r.Annotations))
					}
				}
			}
			if !fires {
				silent++
			}
		}
		if !resolves || silent < 3 {
			t.Errorf("%s: resolves: %v, tests in which it stays silent: %d, want 3", file, resolves, silent)
		}
		for _, must := range []string{"in a rolling restart", "never existed|on a single node"} {
			found := false
			for _, one := range strings.Split(must, "|") {
				found = found || strings.Contains(names, one)
			}
			if !found {
				t.Errorf("%s has no test that says %q", file, must)
			}
		}
	}
	promtool(t, append([]string{"test", "rules"}, files...)...)
}
