package contract

import (
	"strings"
	"testing"
)

// clusterWide are the kinds that lie in no namespace.
var clusterWide = map[string]bool{"Namespace": true, "ClusterRole": true, "ClusterRoleBinding": true}

func TestEveryObjectIsNamedAndLabelled(t *testing.T) {
	each(t, func(t *testing.T, _ map[string]any, r *Release) {
		seen := make(map[string]bool)
		for _, o := range r.Objects {
			if strings.HasSuffix(o.Template, "/extra.yaml") {
				continue // the user's own
			}
			if seen[o.String()] {
				t.Errorf("%s is made twice", o)
			}
			seen[o.String()] = true
			namespace := o.Text("metadata", "namespace")
			switch {
			case clusterWide[o.Text("kind")]:
			case namespace != "maestrohub" && namespace != "maestrohub-deps":
				t.Errorf("%s of %s: lies in namespace %q, want the release's or that of NATS", o, o.Template, namespace)
			}
			name := o.Text("metadata", "name")
			if !strings.HasPrefix(name, "maestrohub") {
				t.Errorf("%s: is not named after the release", o)
			}
			if len(name) > 63 {
				t.Errorf("%s: name of %d characters", o, len(name))
			}
			labels, _ := o.Field("metadata", "labels").(map[string]any)
			for label, want := range map[string]string{"app.kubernetes.io/instance": "maestrohub", "app.kubernetes.io/part-of": "maestrohub", "app.kubernetes.io/name": ""} {
				if got, _ := labels[label].(string); got == "" || want != "" && got != want {
					t.Errorf("%s of %s: label %s is %q", o, o.Template, label, got)
				}
			}
		}
	})
}

// global.labels are on everything, the pods among them, and change nothing that selectors and policies go by.
func TestGlobalLabelsAreOnEverything(t *testing.T) {
	for name, values := range installations(t) {
		if name == "values-production.yaml" {
			values = Merged(values, At("backup.enabled", true))
		}
		plain := render(t, values)
		r := render(t, Merged(values, At("global.labels", map[string]any{"team": "plant", "app.kubernetes.io/name": "mine", "app.kubernetes.io/part-of": "mine"})))
		for i, o := range r.Objects {
			if strings.HasSuffix(o.Template, "/extra.yaml") {
				continue
			}
			if labels, _ := o.Field("metadata", "labels").(map[string]any); labels["team"] != "plant" {
				t.Errorf("%s: %s is not labelled", name, o)
			}
			for _, label := range []string{"app.kubernetes.io/name", "app.kubernetes.io/part-of"} {
				labels, _ := o.Field("metadata", "labels").(map[string]any)
				was, _ := plain.Objects[i].Field("metadata", "labels").(map[string]any)
				if labels[label] != was[label] {
					t.Errorf("%s: %s: %s is %v, and was %v", name, o, label, labels[label], was[label])
				}
			}
		}
		for _, p := range pods(t, r) {
			if p.meta.Labels["team"] != "plant" || p.meta.Labels["app.kubernetes.io/part-of"] != "maestrohub" {
				t.Errorf("%s: the pods of %s have the labels %v", name, p.of, p.meta.Labels)
			}
		}
	}
}

func TestALongReleaseNameStillFitsAndALongerIsRefused(t *testing.T) {
	for length, fits := range map[int]bool{40: true, 41: false} {
		r, err := Render(Install{Chart: folder, Name: strings.Repeat("r", length), APIs: everyAPI})
		if (err == nil) != fits {
			t.Errorf("a name of %d characters: %v", length, err)
		}
		if err != nil {
			continue
		}
		for _, o := range r.Objects {
			// A StatefulSet's pods carry a label <name>-<hash of ten>, a CronJob's Jobs a time of eleven.
			most := map[string]int{"StatefulSet": 52, "CronJob": 52, "Service": 63, "Job": 63}[o.Text("kind")]
			if n := len(o.Text("metadata", "name")); most > 0 && n > most {
				t.Errorf("%s: %d characters, at most %d", o, n, most)
			}
		}
	}
}
