package contract

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// templates is the text of every template of the chart that stands above charts/.
func templates(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(filepath.Join(folder, "templates"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		all.Write(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// A template that asks for a value nobody can set has a misspelt name, or lost it.
func TestTemplatesUseValuesThatThereAre(t *testing.T) {
	known := make(map[string]bool)
	free := []string{"uns.config.", "nats.", "uns.resources.", "uns.affinity."} // what lies below is not in values.yaml, or not all of it
	values(t).Walk(func(v *Value) { known[v.Path] = true })
	for _, m := range regexp.MustCompile(`\.Values\.([A-Za-z0-9_.]*[A-Za-z0-9_])`).FindAllStringSubmatch(templates(t), -1) {
		path := m[1]
		ok := known[path]
		for _, prefix := range free {
			ok = ok || strings.HasPrefix(path, prefix)
		}
		if !ok {
			t.Errorf(".Values.%s: no such value", path)
		}
	}
}

// A value that no template reads promises what is not kept. A value is read by its
// own path, by that of a map it lies in, which is then taken as a whole or under
// another name, or through files/settings.json.
func TestEveryValueIsUsed(t *testing.T) {
	text := templates(t)
	values(t).Walk(func(v *Value) {
		if len(v.Children) > 0 || v.Config != nil || v.Path == "nats.enabled" {
			return
		}
		// The last part must be read, and something it lies in be named.
		name := regexp.MustCompile(`[."]` + regexp.QuoteMeta(v.Name()) + `\b`)
		above := v.Path
		for above != "" && !strings.Contains(text, ".Values."+above) {
			above = above[:max(0, strings.LastIndexByte(above, '.'))]
		}
		whole := regexp.MustCompile(`(toYaml|with) \$?\.Values\.` + regexp.QuoteMeta(above) + `\b`)
		if above == "" || above != v.Path && !name.MatchString(text) && !whole.MatchString(text) {
			t.Errorf("%s is read by no template", v.Path)
		}
	})
}
