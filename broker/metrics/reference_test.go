package metrics

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "bring the reference in broker/README.md up to date")

const (
	readme = "../README.md"
	begin  = "<!-- metrics:begin -->\n"
	end    = "<!-- metrics:end -->"
)

// go test ./broker/metrics -run Reference -rewrite brings the README up to date.
func TestReferenceInTheReadmeIsCurrent(t *testing.T) {
	page, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, hasBegin := strings.Cut(string(page), begin)
	old, tail, hasEnd := strings.Cut(rest, end)
	switch {
	case !hasBegin || !hasEnd:
		t.Fatalf("broker/README.md needs a line %q and a line %q", strings.TrimSpace(begin), end)
	case old == Reference():
	case *rewrite:
		if err := os.WriteFile(readme, []byte(head+begin+Reference()+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Error("the metrics in broker/README.md are not those there are: go test ./broker/metrics -run Reference -rewrite")
	}
}
