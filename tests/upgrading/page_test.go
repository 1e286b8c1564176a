package upgrading_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var pages = []string{"UPGRADING.md", "runbooks/certificates.md", "runbooks/member-ttl.md", "runbooks/nats-auth-switch.md"}

// Blocks of the pages are shell, the values they set are the chart's, and what they link to is there.
func TestPagesHoldTogether(t *testing.T) {
	var values map[string]any
	text, err := os.ReadFile(filepath.Join(root, "chart/values.yaml"))
	must(t, err)
	must(t, yaml.Unmarshal(text, &values))
	sub := map[string]any{}
	text, err = os.ReadFile(filepath.Join(root, "chart/charts/nats/values.yaml"))
	must(t, err)
	must(t, yaml.Unmarshal(text, &sub))
	values["nats"] = sub
	block := regexp.MustCompile("(?s)```(\\S*)( \\S+)?\n(.*?)\n *```")
	set := regexp.MustCompile(`--set(?:-string)?[ =]"?([a-zA-Z.]+)=`)
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, page := range pages {
		content, err := os.ReadFile(filepath.Join(root, page))
		must(t, err)
		for _, m := range block.FindAllStringSubmatch(string(content), -1) {
			kind := m[1] + m[2]
			switch kind {
			case "sh look", "sh change":
				cmd := exec.CommandContext(t.Context(), "bash", "-n")
				cmd.Stdin = strings.NewReader(m[3])
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%s: %s\n%s", page, m[3], out)
				}
			case "text healthy", "text unhealthy", "log":
			default:
				t.Errorf("%s: a block is tagged %q", page, kind)
			}
			for _, s := range set.FindAllStringSubmatch(m[3], -1) {
				at := any(values)
				for _, name := range strings.Split(s[1], ".") {
					below, _ := at.(map[string]any)
					if _, there := below[name]; !there {
						t.Errorf("%s sets %s, which the chart does not have", page, s[1])
						break
					}
					at = below[name]
				}
			}
		}
		for _, m := range link.FindAllStringSubmatch(string(content), -1) {
			file, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			there, err := os.ReadFile(filepath.Join(root, target))
			if err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
				continue
			}
			found := anchor == ""
			for _, h := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(string(there), -1) {
				made := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(h[1]), "")
				found = found || strings.ReplaceAll(made, " ", "-") == anchor
			}
			if !found {
				t.Errorf("%s links to %s, and there is no such heading", page, m[1])
			}
		}
	}
}
