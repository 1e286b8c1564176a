package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"maestrohub.io/uns/broker/secrets"
)

// cluster is a secrets.Store in memory.
type cluster map[secrets.Ref]*secrets.Secret

func (c cluster) Read(_ context.Context, r secrets.Ref) (*secrets.Secret, error) {
	if s := c[r]; s != nil {
		return s, nil
	}
	return nil, secrets.ErrMissing
}

func (c cluster) Create(_ context.Context, s *secrets.Secret) error {
	if c[s.Ref] != nil {
		return secrets.ErrConflict
	}
	c[s.Ref] = s
	return nil
}

func (c cluster) Change(_ context.Context, change secrets.Change) error {
	return fmt.Errorf("Secret %s is changed", change.Ref)
}

// planOf is the plan of a release's Job; nil if it has none.
func planOf(t *testing.T, r *Release) *secrets.Plan {
	t.Helper()
	for _, p := range pods(t, r) {
		for _, c := range p.containers() {
			for _, e := range c.Env {
				if e.Name != "SECRETS_PLAN" {
					continue
				}
				plan, err := secrets.ParsePlan([]byte(e.Value))
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(c.Args, []string{"secrets", "ensure"}) {
					t.Errorf("the Job runs %q", c.Args)
				}
				return plan
			}
		}
	}
	return nil
}

// secretUse is a key of a Secret that a pod needs; "" is the Secret itself.
type secretUse struct {
	secrets.Ref
	key string
}

func uses(p pod, namespace string) []secretUse {
	var all []secretUse
	use := func(name string, keys ...string) {
		if len(keys) == 0 {
			keys = []string{""}
		}
		for _, k := range keys {
			all = append(all, secretUse{secrets.Ref{Namespace: namespace, Name: name}, k})
		}
	}
	keys := func(items []corev1.KeyToPath) (keys []string) {
		for _, i := range items {
			keys = append(keys, i.Key)
		}
		return keys
	}
	for _, v := range p.spec.Volumes {
		if v.Secret != nil && (v.Secret.Optional == nil || !*v.Secret.Optional) {
			use(v.Secret.SecretName, keys(v.Secret.Items)...)
		}
		if v.Projected != nil {
			for _, s := range v.Projected.Sources {
				if s.Secret != nil && (s.Secret.Optional == nil || !*s.Secret.Optional) {
					use(s.Secret.Name, keys(s.Secret.Items)...)
				}
			}
		}
	}
	for _, c := range p.containers() {
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				use(e.ValueFrom.SecretKeyRef.Name, e.ValueFrom.SecretKeyRef.Key)
			}
		}
	}
	return all
}

// everythingOn are the production values with each thing the plan can have.
func everythingOn() map[string]any {
	return map[string]any{
		"global":  map[string]any{"natsAuth": map[string]any{"enabled": true}, "natsTLS": map[string]any{"enabled": true, "mutual": true}},
		"uns":     map[string]any{"replicas": 2},
		"storage": map[string]any{"type": "timescale", "timescale": map[string]any{"bundled": map[string]any{"enabled": true}}},
	}
}

// Every Secret that a pod mounts is made by the Job, by the chart or by cert-manager, with the key that is used, or is
// one that the values name.
func TestEverySecretThatAPodMountsComesFromSomewhere(t *testing.T) {
	check := func(t *testing.T, values map[string]any, r *Release) {
		made := cluster{}
		if plan := planOf(t, r); plan != nil {
			for _, c := range plan.Certificates {
				if c.Existing {
					made[c.Secret] = nil // told by name below
				}
			}
			if err := secrets.Ensure(t.Context(), made, plan, 0, func(string) {}); err != nil {
				t.Fatal(err)
			}
			before := fmt.Sprint(made)
			if err := secrets.Ensure(t.Context(), made, plan, 0, func(string) {}); err != nil || fmt.Sprint(made) != before {
				t.Errorf("a second run: %v", err)
			}
		}
		for _, o := range r.Objects {
			ref := secrets.Ref{Namespace: o.Text("metadata", "namespace"), Name: o.Text("metadata", "name")}
			switch o.Text("kind") {
			case "Secret":
				data := map[string][]byte{}
				for _, field := range []string{"data", "stringData"} {
					if m, ok := o.Field(field).(map[string]any); ok {
						for k := range m {
							data[k] = []byte("x")
						}
					}
				}
				made[ref] = &secrets.Secret{Ref: ref, Data: data}
			case "Certificate":
				ref.Name = o.Text("spec", "secretName")
				made[ref] = &secrets.Secret{Ref: ref, Data: map[string][]byte{"tls.crt": {1}, "tls.key": {1}, "ca.crt": {1}}}
			}
		}
		given, err := json.Marshal(values)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pods(t, r) {
			for _, u := range uses(p, p.of.Text("metadata", "namespace")) {
				s := made[u.Ref]
				switch {
				case s == nil && !bytes.Contains(given, []byte(`"`+u.Name+`"`)):
					t.Errorf("%s needs Secret %s, which nobody makes and no value names", p.of, u.Ref)
				case s != nil && u.key != "" && len(s.Data[u.key]) == 0:
					t.Errorf("%s needs key %s of Secret %s, which has %v", p.of, u.key, u.Ref, s.Data)
				}
			}
		}
	}
	each(t, check)
	for name, values := range map[string]map[string]any{
		"everything on": everythingOn(),
		"cert-manager": Merged(everythingOn(), map[string]any{"certManager": map[string]any{"enabled": true, "issuerRef": map[string]any{"name": "plant"}, "mqtt": map[string]any{"enabled": true}},
			"uns": map[string]any{"mqtt": map[string]any{"embedded": map[string]any{"tls": map[string]any{"secretName": "mqtt-tls"}}}}}),
	} {
		t.Run(name, func(t *testing.T) { check(t, values, render(t, values)) })
	}
}

// The Job may read and change the Secrets of its plan and create others, and nothing else; what is the user's it may
// only read.
func TestTheJobMayDoWhatItsPlanNeedsAndNoMore(t *testing.T) {
	yours := Merged(everythingOn(), map[string]any{
		"global": map[string]any{"natsAuth": map[string]any{"create": false}, "natsTLS": map[string]any{"create": false}},
		"uns":    map[string]any{"mqtt": map[string]any{"embedded": map[string]any{"mesh": map[string]any{"existingSecret": "my-mesh"}}}},
	})
	for name, values := range map[string]map[string]any{"made": everythingOn(), "yours": yours, "a single node": {"nats": map[string]any{"enabled": false}}} {
		t.Run(name, func(t *testing.T) {
			r := render(t, values)
			plan := planOf(t, r)
			wanted := map[string]bool{} // "verb namespace/name"; create has no name
			item := func(ref secrets.Ref, existing bool) {
				wanted["get "+ref.String()] = true
				if !existing {
					wanted["patch "+ref.String()], wanted["create "+ref.Namespace+"/"] = true, true
				}
			}
			for _, x := range plan.Authorities {
				item(x.Secret, false)
			}
			for _, x := range plan.Passwords {
				item(x.Secret, x.Existing)
			}
			for _, x := range plan.Certificates {
				item(x.Secret, x.Existing)
			}
			for _, x := range plan.Accounts {
				item(x.Secret, x.Existing)
			}
			bound := map[string]bool{}
			for _, o := range r.Of("RoleBinding") {
				if strings.HasSuffix(o.Text("metadata", "name"), "-secrets") {
					bound[o.Text("metadata", "namespace")] = true
				}
			}
			for _, o := range r.Of("Role") {
				object, _, err := o.Typed()
				if err != nil {
					t.Fatal(err)
				}
				role := object.(*rbacv1.Role)
				if !strings.HasSuffix(role.Name, "-secrets") {
					continue
				}
				if !bound[role.Namespace] {
					t.Errorf("%s is bound to nobody", o)
				}
				for _, rule := range role.Rules {
					if !slices.Equal(rule.Resources, []string{"secrets"}) || !slices.Equal(rule.APIGroups, []string{""}) {
						t.Errorf("%s: rule %+v", o, rule)
					}
					for _, verb := range rule.Verbs {
						names := rule.ResourceNames
						if len(names) == 0 {
							names = []string{""}
						}
						for _, n := range names {
							have := verb + " " + role.Namespace + "/" + n
							if !wanted[have] {
								t.Errorf("%s allows %q, which the plan does not need", o, have)
							}
							delete(wanted, have)
						}
					}
				}
			}
			for missing := range wanted {
				t.Errorf("no Role allows %q", missing)
			}
		})
	}
}

// A server certificate of your own needs the names that replicas and servers call, which are those of the rendered
// configuration, and no others.
func TestACertificateOfYourOwnNeedsTheNamesThatAreCalled(t *testing.T) {
	for name, fqdn := range map[string]bool{"short": false, "long": true} {
		t.Run(name, func(t *testing.T) {
			r := render(t, Merged(everythingOn(), map[string]any{
				"global": map[string]any{"natsTLS": map[string]any{"create": false}},
				"nats":   map[string]any{"config": map[string]any{"cluster": map[string]any{"routeURLs": map[string]any{"useFQDN": fqdn}}}},
			}))
			called := map[string]bool{}
			for _, o := range r.Of("ConfigMap") {
				for _, m := range regexp.MustCompile(`tls://([^:"\s]+):`).FindAllSubmatch(o.YAML, -1) {
					called[string(m[1])] = true
				}
			}
			for _, c := range planOf(t, r).Certificates {
				if c.Thing != "NATS server certificate" {
					continue
				}
				for _, n := range c.DNS {
					if !called[n] {
						t.Errorf("%s is asked for, and nobody calls it", n)
					}
					delete(called, n)
				}
			}
			for n := range called {
				t.Errorf("%s is called, and not asked for", n)
			}
		})
	}
}

// Everything of the Job is a hook that goes first and is gone after it: the namespace, then the rights, then the Job.
// A Namespace, a Secret or a claim as a hook would be deleted before it is made again.
func TestHooksAreInOrderAndDeleteNothingOfValue(t *testing.T) {
	r := render(t, everythingOn())
	weights := map[string]string{}
	for _, o := range r.Objects {
		annotations, _ := o.Field("metadata", "annotations").(map[string]any)
		hook, _ := annotations["helm.sh/hook"].(string)
		if hook == "" {
			continue
		}
		if slices.Contains([]string{"Namespace", "Secret", "PersistentVolumeClaim", "StatefulSet"}, o.Text("kind")) {
			t.Errorf("%s is a hook: helm would delete it, and what is in it, before it makes it again", o)
		}
		if strings.HasPrefix(o.Template, "maestrohub/templates/secrets/") {
			if hook != "pre-install,pre-upgrade" || annotations["helm.sh/hook-delete-policy"] != "before-hook-creation,hook-succeeded" {
				t.Errorf("%s: %v", o, annotations)
			}
			weights[strings.Fields(o.String())[0]+" "+strings.TrimSuffix(strings.TrimPrefix(o.Template, "maestrohub/templates/secrets/"), ".yaml")] = annotations["helm.sh/hook-weight"].(string)
		}
	}
	order := []string{"ServiceAccount namespace", "ClusterRole namespace", "Job namespace", "ServiceAccount job", "Role job", "Job job"}
	last := -1000
	for _, name := range order {
		var weight int
		if _, err := fmt.Sscan(weights[name], &weight); err != nil {
			t.Fatalf("%s has the weight %q", name, weights[name])
		}
		if weight < last {
			t.Errorf("%s (%d) comes before what it needs (%d)", name, weight, last)
		}
		last = weight
	}
	// Argo CD takes what has this label for its own, and prunes what the chart does not render.
	if label, there := planOf(t, r).Labels["app.kubernetes.io/instance"]; there {
		t.Errorf("what the Job makes is labelled instance=%s", label)
	}
	for _, o := range r.Of("Job") {
		if strings.Contains(string(o.YAML), "app.kubernetes.io/instance=") {
			t.Errorf("%s labels the namespace as its instance", o)
		}
		if !strings.HasPrefix(o.Template, "maestrohub/templates/secrets/") {
			continue
		}
		// kubectl apply cannot change a Job: another specification has another name, the same one the same.
		again := render(t, Merged(everythingOn(), map[string]any{"uns": map[string]any{"image": map[string]any{"tag": "3.0.1"}}}))
		if again.Object("Job", o.Text("metadata", "name")) != nil {
			t.Errorf("%s has the same name with another image", o)
		}
	}
}

// What no guard but the schema says of certificates and passwords; the guards are in chart/tests.
func TestTheSchemaKnowsTheSecretsValues(t *testing.T) {
	for name, c := range map[string]struct {
		values map[string]any
		want   string
	}{
		"an unknown stage": {At("secrets.authorities.mesh", "next"), "'/secrets/authorities/mesh': value must be one of"},
		"an unknown key":   {At("secrets.renew.nats", "x"), "additional properties 'nats' not allowed"},
		"no life":          {At("global.natsTLS.certDurationDays", 0), "'/global/natsTLS/certDurationDays': minimum: got 0, want 1"},
	} {
		if got := refusal(t, c.values); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	words := Merged(everythingOn(), map[string]any{"secrets": map[string]any{"renew": map[string]any{"mesh": "1", "natsServer": "2", "natsClient": "3", "natsPasswords": "4"}, "authorities": map[string]any{"mesh": "introduce", "nats": "switch"}}})
	if got := refusal(t, words); got != "" {
		t.Errorf("words and stages: %s", got)
	}
}
