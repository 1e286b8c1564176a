package alerts_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// panel is what a Grafana panel asks and says.
type panel struct {
	Type, Title, Description string
	Targets                  []struct{ Expr, LegendFormat string }
	GridPos                  struct{ H, W, X, Y int }
}

// grafana stands for what Grafana puts into an expression.
var grafana = strings.NewReplacer("$__rate_interval", "2m", "$namespace", "maestrohub", "$pod", ".+")

func TestEveryPanelOfTheDashboardAsksForWhatIsExported(t *testing.T) {
	files, err := filepath.Glob("../chart/files/dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	metrics := exported(t)
	used := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d struct {
			UID, Title  string
			Panels      []panel
			Annotations struct{ List []struct{ Name, Expr string } }
		}
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if d.UID == "" || d.Title == "" {
			t.Errorf("%s has no uid or title: links to it would not last", file)
		}
		taken := map[[2]int]string{}
		for _, p := range d.Panels {
			for x := range p.GridPos.W {
				for y := range p.GridPos.H {
					at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
					if other := taken[at]; other != "" || at[0] >= 24 {
						t.Fatalf("%s: panel %q lies over %q, or out of the grid", file, p.Title, other)
					}
					taken[at] = p.Title
				}
			}
			if p.Type == "row" {
				continue
			}
			if p.Title == "" || len(p.Targets) == 0 {
				t.Errorf("%s: a panel %q without title or query", file, p.Title)
			}
			for _, target := range p.Targets {
				where := file + ", panel " + p.Title
				e := parse(t, where, grafana.Replace(target.Expr))
				checkMetrics(t, where, e, metrics)
				for _, name := range counters(e, metrics) {
					used[name] = true
				}
				if target.LegendFormat == "" {
					t.Errorf("%s: a query without a legend", where)
				}
				if !strings.Contains(target.Expr, `namespace="$namespace"`) {
					t.Errorf("%s: %s is not of the chosen namespace", where, target.Expr)
				}
			}
		}
		for _, a := range d.Annotations.List {
			checkMetrics(t, file+", annotation "+a.Name, parse(t, a.Name, grafana.Replace(a.Expr)), metrics)
		}
	}
	// Whoever comes from an alert finds its figures here.
	for _, r := range rules(t) {
		for _, name := range counters(parse(t, r.Alert, r.Expr), metrics) {
			if !used[name] {
				t.Errorf("%s is about %s, which no panel shows", r.Alert, name)
			}
		}
	}
}
