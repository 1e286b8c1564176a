package kubernetes_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// manifest is one object as text.
type manifest string

// template renders the release's chart with values, as for this cluster.
func (r *release) template(t *testing.T, values map[string]any) (objects []manifest) {
	t.Helper()
	args := []string{"template", r.name, filepath.Join(root, "chart"), "--namespace", r.namespace, "--validate", "--skip-tests"}
	for _, f := range r.files {
		args = append(args, "--values", filepath.Join(root, "chart", f))
	}
	text := cluster.mustRun(t, "helm", append(args, "--values", valuesFile(t, values))...)
	for _, document := range regexp.MustCompile(`(?m)^---$`).Split(text, -1) {
		if strings.TrimSpace(document) != "" {
			objects = append(objects, manifest(document))
		}
	}
	return objects
}

// valuesFile writes values, with the registry of this run, for a command line.
func valuesFile(t *testing.T, values map[string]any) string {
	t.Helper()
	content, err := yaml.Marshal(merge(map[string]any{"global": map[string]any{"imageRegistry": *registry}}, values))
	if err != nil {
		t.Fatal(err)
	}
	return written(t, "values.yaml", content)
}

// written is a file with the content, which is gone when the test ends.
func written(t *testing.T, name string, content []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func (m manifest) decode(t *testing.T, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(m), into); err != nil {
		t.Fatalf("%v in\n%s", err, m)
	}
}

// apply gives objects to kubectl apply.
func apply(t *testing.T, objects []manifest, flags ...string) (string, error) {
	t.Helper()
	var text strings.Builder
	for _, o := range objects {
		fmt.Fprintf(&text, "---\n%s", o)
	}
	return cluster.command(t.Context(), "kubectl", append([]string{"apply", "-f", written(t, "objects.yaml", []byte(text.String()))}, flags...)...)
}
