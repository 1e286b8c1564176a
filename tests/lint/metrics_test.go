package lint_test

import (
	"regexp"
	"strings"
	"testing"
)

// A metric that nothing moves stays zero for ever, and an alert on it stays silent.
func TestEveryMetricIsMovedSomewhere(t *testing.T) {
	body := regexp.MustCompile(`(?s)type Metrics struct \{(.*?)\n\}`).FindSubmatch(read(t, "broker/metrics/metrics.go"))
	if body == nil {
		t.Fatal("broker/metrics/metrics.go has no struct Metrics")
	}
	fields := regexp.MustCompile(`(?m)^\t([A-Z]\w*)\s`).FindAllSubmatch(body[1], -1)
	if len(fields) < 50 {
		t.Fatalf("found %d metrics", len(fields))
	}
	var source strings.Builder
	for _, path := range walk(t) {
		if strings.HasPrefix(path, "broker/") && !strings.HasPrefix(path, "broker/metrics/") && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			source.Write(read(t, path))
		}
	}
	for _, f := range fields {
		// Through a variable of the type, whatever it is called: m.X, r.metrics.X.
		if !regexp.MustCompile(`(?i:m|metrics|counters)\.` + string(f[1]) + `(\.|\[)`).MatchString(source.String()) {
			t.Errorf("broker/metrics/metrics.go: nothing outside the package moves %s", f[1])
		}
	}
}
