package config_test

import (
	"os"
	"strings"
	"testing"

	"maestrohub.io/uns/broker/config"
)

const (
	readme = "../README.md"
	begin  = "<!-- config:begin -->\n"
	end    = "<!-- config:end -->"
)

// go test ./broker/config -run Reference -rewrite brings the README up to date.
func TestReferenceInTheReadmeIsCurrent(t *testing.T) {
	page, err := os.ReadFile(readme)
	if os.IsNotExist(err) {
		t.Skip("there is no broker/README.md")
	} else if err != nil {
		t.Fatal(err)
	}
	head, rest, hasBegin := strings.Cut(string(page), begin)
	old, tail, hasEnd := strings.Cut(rest, end)
	switch {
	case !hasBegin && !strings.Contains(string(page), end):
		t.Skip("broker/README.md has no config markers")
	case !hasBegin || !hasEnd:
		t.Fatalf("broker/README.md needs a line %q and a line %q", strings.TrimSpace(begin), end)
	case old == config.Reference():
	case *rewrite:
		if err := os.WriteFile(readme, []byte(head+begin+config.Reference()+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Error("the reference in broker/README.md is not what the table says: go test ./broker/config -run Reference -rewrite")
	}
}

func TestReferenceHasARowPerKey(t *testing.T) {
	for _, key := range []string{
		"modules.uns.brokerMemberTTL", "modules.uns.embeddedBrokerLimits.connectBudget", "modules.uns.brokerMesh.listen",
		"modules.uns.historian.timescale.url_file", "modules.uns.oauth2.issuers[].audience",
	} {
		if !strings.Contains(config.Reference(), "| `"+key+"` |") {
			t.Errorf("no row for %s", key)
		}
	}
	for _, row := range strings.Split(strings.TrimSpace(config.Reference()), "\n") {
		if strings.Count(row, "|")-strings.Count(row, `\|`) != 6 {
			t.Errorf("not five cells: %s", row)
		}
	}
}
