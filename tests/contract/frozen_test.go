package contract

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
)

// Kubernetes changes none of these in place: another value here is an upgrade that
// fails on every installation. testdata/frozen.txt is what was released; a change of
// it belongs into UPGRADING.md, with the steps.
func TestWhatKubernetesCannotChangeIsFrozen(t *testing.T) {
	var b strings.Builder
	all := installations(t)
	for _, name := range []string{"values-local-lab.yaml", "values-production.yaml", "values-single-node.yaml", "values.yaml"} {
		r := render(t, all[name])
		for _, o := range r.Of("StatefulSet") {
			claims, err := json.Marshal(o.Field("spec", "volumeClaimTemplates"))
			if err != nil {
				t.Fatal(err)
			}
			selector, err := json.Marshal(o.Field("spec", "selector"))
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "%s: %s\n  selector %s\n  serviceName %v\n  podManagementPolicy %v\n  volumeClaimTemplates %s\n",
				name, o, selector, o.Field("spec", "serviceName"), o.Field("spec", "podManagementPolicy"), claims)
		}
		for _, o := range r.Of("Service") {
			if o.Text("spec", "clusterIP") == "None" {
				fmt.Fprintf(&b, "%s: %s\n  clusterIP None\n", name, o)
			}
		}
	}
	current(t, "testdata/frozen.txt", []byte(b.String()))
}

// Chart.lock is that of Chart.yaml: helm dependency build refuses another.
func TestTheLockIsTheCharts(t *testing.T) {
	c, err := loader.LoadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	if c.Lock == nil {
		t.Fatal("no Chart.lock")
	}
	data, err := json.Marshal([2][]*chart.Dependency{c.Metadata.Dependencies, c.Lock.Dependencies})
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	if want := "sha256:" + hex.EncodeToString(sum[:]); c.Lock.Digest != want {
		t.Errorf("Chart.lock has the digest %s, want %s: helm dependency update chart", c.Lock.Digest, want)
	}
	for _, d := range c.Metadata.Dependencies {
		i := slices.IndexFunc(c.Dependencies(), func(sub *chart.Chart) bool { return sub.Name() == d.Name })
		if i < 0 || c.Dependencies()[i].Metadata.Version != d.Version {
			t.Errorf("charts/ has no %s %s", d.Name, d.Version)
		}
	}
}

// What a packaged chart carries lies in chart/, and the top level points at it: Helm
// packs no link.
func TestTheTopLevelPointsIntoTheChart(t *testing.T) {
	root := "../../"
	files, err := filepath.Glob(root + "values/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("values/: %v, %v", files, err)
	}
	for _, file := range append(files, root+"Chart.lock") {
		target, err := os.Readlink(file)
		if err != nil {
			t.Errorf("%s is no link into chart/: %v", file, err)
		} else if _, err := os.Stat(filepath.Join(filepath.Dir(file), target)); err != nil || !strings.Contains(target, "chart/") {
			t.Errorf("%s points at %s: %v", file, target, err)
		}
	}
	err = filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type()&os.ModeSymlink != 0 {
			t.Errorf("%s is a link", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
