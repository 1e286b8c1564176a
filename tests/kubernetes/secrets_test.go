package kubernetes_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// secretsOf are digests of what the Secrets of namespaces hold, helm's own records
// left out, by namespace/name/key.
func secretsOf(t *testing.T, namespaces ...string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, n := range namespaces {
		list, err := cluster.CoreV1().Secrets(n).List(t.Context(), meta.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list.Items {
			if s.Type == core.SecretType("helm.sh/release.v1") {
				continue
			}
			for key, value := range s.Data {
				sum := sha256.Sum256(value)
				found[n+"/"+s.Name+"/"+key] = hex.EncodeToString(sum[:8])
			}
		}
	}
	return found
}

// different lists the keys that are not the same on both sides.
func different(before, after map[string]string) (keys []string) {
	for _, key := range slices.Sorted(maps.Keys(merged(before, after))) {
		if before[key] != after[key] {
			keys = append(keys, key)
		}
	}
	return keys
}

func merged(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

func TestUpgradesChangeNoSecret(t *testing.T) {
	s := start(t)
	before := secretsOf(t, s.release.namespace, s.release.deps())
	if len(before) < 10 {
		t.Fatalf("the release has only these secrets: %v", slices.Sorted(maps.Keys(before)))
	}
	uids := map[string]bool{}
	for i := range 2 {
		uids[string(s.pod(t, i).UID)] = true
	}
	began := time.Now()
	for range 2 {
		if err := s.release.apply(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	took := time.Since(began)
	if changed := different(before, secretsOf(t, s.release.namespace, s.release.deps())); len(changed) > 0 {
		t.Errorf("two upgrades without a change changed %q", changed)
	}
	for i := range 2 {
		if !uids[string(s.pod(t, i).UID)] {
			t.Errorf("an upgrade without a change replaced %s", s.podName(i))
		}
	}
	row(t, "helm upgrade, twice, nothing changed", "no secret changes, no pod restarts", fmt.Sprintf("%d secret keys the same, %v", len(before), took.Round(time.Second)))
}
