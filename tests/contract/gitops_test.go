package contract

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"maestrohub.io/uns/broker/secrets"
)

// things are what an installation needs and cannot be in Git: where it lies, by whom it is made, and what the Job says
// when a part of it is gone.
var things = []struct {
	name string
	// secrets of it, "namespace/name"; the first is the one that pods know.
	secrets []string
	// yours are the values by which it is the user's own; none: it cannot be.
	yours map[string]any
	// lost are those whose loss would mean another authority, or other passwords, behind the installation's back.
	lost []string
	// refusal is what the Job says of that. Empty: it goes on with what is left, and makes nothing.
	refusal string
	// manager: cert-manager makes it, if it is on.
	manager bool
}{
	{"mesh", []string{"maestrohub/maestrohub-uns-mesh-tls", "maestrohub/maestrohub-uns-mesh-ca"},
		At("uns.mqtt.embedded.mesh.existingSecret", "maestrohub-uns-mesh-tls"), []string{"maestrohub/maestrohub-uns-mesh-ca"}, "", true},
	{"natsTLS", []string{"maestrohub/maestrohub-nats-client-tls", "maestrohub-deps/maestrohub-nats-server-tls", "maestrohub-deps/maestrohub-nats-ca"},
		At("global.natsTLS.create", false), []string{"maestrohub-deps/maestrohub-nats-ca", "maestrohub/maestrohub-nats-client-tls"},
		"Secret maestrohub-deps/maestrohub-nats-ca (NATS authority) is missing, and Secret maestrohub/maestrohub-nats-client-tls is missing too", true},
	{"natsAuth", []string{"maestrohub/maestrohub-nats-auth-uns", "maestrohub-deps/maestrohub-nats-auth-sys", "maestrohub-deps/maestrohub-nats-auth"},
		At("global.natsAuth.create", false), []string{"maestrohub/maestrohub-nats-auth-uns"}, "Secret maestrohub/maestrohub-nats-auth-uns, with the password of user", false},
	{"database", []string{"maestrohub/maestrohub-uns-timescale"}, nil, nil, "", false},
	{"helm test's client", []string{"maestrohub/maestrohub-uns-test-client"}, nil, nil, "", false},
}

func ref(text string) secrets.Ref {
	namespace, name, _ := strings.Cut(text, "/")
	return secrets.Ref{Namespace: namespace, Name: name}
}

// ensure follows a plan and returns the problem as text.
func ensure(t *testing.T, c cluster, plan *secrets.Plan) string {
	t.Helper()
	if err := secrets.Ensure(t.Context(), c, plan, 0, func(string) {}); err != nil {
		return err.Error()
	}
	return ""
}

// Nothing is made anew in silence, however the manifests reach the cluster: what is made, is made once; what is half
// lost, or yours and missing, is refused by name, and then nothing is written at all.
func TestSecretsAreMadeOnceOrRefusedByName(t *testing.T) {
	made := cluster{}
	plan := planOf(t, render(t, everythingOn()))
	if problem := ensure(t, made, plan); problem != "" {
		t.Fatal(problem)
	}
	for _, thing := range things {
		t.Run(thing.name, func(t *testing.T) {
			for _, name := range thing.secrets {
				if made[ref(name)] == nil {
					t.Fatalf("the Job made no %s", name)
				}
			}
			if thing.lost != nil {
				rest := maps.Clone(made)
				for _, name := range thing.lost {
					delete(rest, ref(name))
				}
				problem := ensure(t, rest, plan)
				if !strings.Contains(problem, thing.refusal) || (problem == "") != (thing.refusal == "") || problem != "" && !strings.Contains(problem, "from a backup") {
					t.Errorf("without %s: %q, want %q and how to go on", thing.lost, problem, thing.refusal)
				}
				if len(rest) != len(made)-len(thing.lost) {
					t.Errorf("without %s something was made: there are %d Secrets, %d were left", thing.lost, len(rest), len(made)-len(thing.lost))
				}
			}
			if thing.yours == nil {
				return
			}
			r := render(t, Merged(everythingOn(), thing.yours))
			yours := planOf(t, r)
			empty := cluster{}
			if problem := ensure(t, empty, yours); !strings.Contains(problem, "Secret "+thing.secrets[0]) || !strings.Contains(problem, "the values say that it is yours") || len(empty) != 0 {
				t.Errorf("yours and not there: %q, and %d Secrets were made", problem, len(empty))
			}
			there := maps.Clone(made)
			if problem := ensure(t, there, yours); problem != "" {
				t.Errorf("yours and there: %s", problem)
			}
			for name, s := range made {
				if there[name] != s {
					t.Errorf("Secret %s was written", name)
				}
			}
		})
	}
}

// With cert-manager the certificates are objects that it renews; passwords stay the Job's. What is yours stays yours.
func TestCertManagerMakesTheCertificatesThatAreNotYours(t *testing.T) {
	manager := map[string]any{"certManager": map[string]any{"enabled": true, "issuerRef": map[string]any{"name": "plant"}}}
	certificates := func(r *Release) (names []string) {
		for _, o := range r.Of("Certificate") {
			names = append(names, o.Text("metadata", "namespace")+"/"+o.Text("spec", "secretName"))
		}
		return names
	}
	planned := func(r *Release) (names []string) {
		for _, c := range planOf(t, r).Certificates {
			names = append(names, c.Secret.String())
		}
		for _, p := range planOf(t, r).Passwords {
			names = append(names, p.Secret.String())
		}
		return names
	}
	for _, thing := range things {
		r := render(t, Merged(everythingOn(), manager))
		name := thing.secrets[0]
		if got := slices.Contains(certificates(r), name); got != thing.manager {
			t.Errorf("%s: a Certificate for %s is made: %v", thing.name, name, got)
		}
		if got := slices.Contains(planned(r), name); got == thing.manager {
			t.Errorf("%s: the Job makes %s: %v", thing.name, name, got)
		}
		if thing.manager {
			r = render(t, Merged(everythingOn(), Merged(manager, thing.yours)))
			if slices.Contains(certificates(r), name) || !slices.Contains(planned(r), name) {
				t.Errorf("%s: yours, and cert-manager would write %s", thing.name, name)
			}
		}
	}
}

// A Secret that a value names is the user's: pods use it, and the Job does not know it.
func TestASecretThatAValueNamesIsUsedAndNeverMade(t *testing.T) {
	for path, key := range map[string]string{
		"uns.clients.existingSecret":            "clients.yaml",
		"tests.existingSecret":                  "id",
		"storage.timescale.existingSecret":      "url",
		"storage.timescale.caSecretName":        "ca.crt",
		"uns.mqtt.embedded.tls.secretName":      "",
		"uns.http.tlsSecretName":                "",
		"externalNats.passwordSecretName":       "password",
		"externalNats.tlsSecretName":            "",
		"uns.mqtt.embedded.mesh.existingSecret": "",
	} {
		values := Merged(everythingOn(), At("storage.timescale", map[string]any{"existingSecret": "database", "bundled": map[string]any{"enabled": false}}))
		if strings.HasPrefix(path, "externalNats") {
			values = Merged(values, map[string]any{"nats": map[string]any{"enabled": false}, "externalNats": map[string]any{"urls": []any{"tls://n:4222"}, "user": "u"}})
		}
		r := render(t, Merged(values, At(path, "mine")))
		mine, used := secrets.Ref{Namespace: "maestrohub", Name: "mine"}, false
		for _, p := range pods(t, r) {
			for _, u := range uses(p, p.of.Text("metadata", "namespace")) {
				used = used || u.Ref == mine && u.key == key
			}
		}
		if !used {
			t.Errorf("%s: no pod uses the Secret, with the key %q", path, key)
		}
		for _, o := range r.Of("Secret") {
			t.Errorf("%s: %s is rendered", path, o)
		}
		plan := planOf(t, r)
		if plan == nil {
			continue
		}
		for _, p := range plan.Passwords {
			if p.Secret == mine {
				t.Errorf("%s: the Job makes it", path)
			}
		}
		for _, c := range plan.Certificates {
			if c.Secret == mine && !c.Existing {
				t.Errorf("%s: the Job makes it", path)
			}
		}
	}
}

// What a template makes up is another thing at each rendering; what it looks up is not there in helm template.
func TestTemplatesMakeNothingUpAndLookNothingUp(t *testing.T) {
	word := regexp.MustCompile(`\b(lookup|gen[A-Z]\w+|rand\w+|derivePassword|htpasswd|bcrypt|uuidv4|now|ago|encryptAES|getHostByName)\b`)
	action := regexp.MustCompile(`\{\{[^}]*\}\}`)
	files := 0
	for _, dir := range []string{"templates", "charts/nats/templates"} {
		err := filepath.WalkDir(filepath.Join(folder, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			files++
			text, err := os.ReadFile(path)
			for _, a := range action.FindAllString(string(text), -1) {
				if strings.HasPrefix(strings.TrimLeft(a, "{- "), "/*") {
					continue
				}
				if m := word.FindString(regexp.MustCompile(`"[^"]*"`).ReplaceAllString(a, "")); m != "" {
					t.Errorf("%s uses %s: %s", path, m, a)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 30 {
		t.Errorf("%d templates found", files)
	}
	for name, values := range installations(t) {
		for _, o := range render(t, values).Of("Secret") {
			if o.Text("metadata", "name") != "maestrohub-uns-clients" {
				t.Errorf("%s: %s stands in the manifests", name, o)
			}
		}
	}
}

// What the README pipes into kubectl apply: two namespaces that are there, no right on the cluster as a whole, nothing
// that only a test is to run.
func TestWhatIsAppliedWithoutHelmNeedsTwoNamespacesAlone(t *testing.T) {
	text := run(t, ".", helm(t), "template", "maestrohub", folder, "-n", "maestrohub", "--skip-tests", "--kube-version", "1.34",
		"--set", "global.createDepsNamespace=false", "-f", repository+"values/values-production.yaml")
	r := &Release{}
	if err := r.add("helm template", text); err != nil {
		t.Fatal(err)
	}
	for _, o := range r.Objects {
		if namespace := o.Text("metadata", "namespace"); namespace != "maestrohub" && namespace != "maestrohub-deps" {
			t.Errorf("%s lies in neither namespace", o)
		}
		if o.Text("kind") == "Pod" {
			t.Errorf("%s would run at once", o)
		}
	}
	if r.Object("StatefulSet", "maestrohub-nats") == nil || len(r.Of("Job")) != 1 {
		t.Errorf("%d objects, %d Jobs: want the servers and the Job that makes the Secrets", len(r.Objects), len(r.Of("Job")))
	}
}

// helm template, as Argo CD and kubectl apply get it: without a cluster, twice the same to the byte.
func TestHelmTemplateIsTheSameTwice(t *testing.T) {
	program := helm(t)
	files := glob(t, repository+"values/*.yaml")
	if len(files) < 3 {
		t.Fatalf("values files: %v", files)
	}
	for _, file := range append(files, folder+"/values.yaml") {
		args := []string{"template", "maestrohub", folder, "--namespace", "maestrohub", "--kube-version", "1.34", "--values", file}
		first := run(t, ".", program, args...)
		if again := run(t, ".", program, args...); again != first {
			t.Errorf("%s: helm template differs from one time to the next", file)
		}
		if !strings.Contains(first, "kind: StatefulSet") {
			t.Errorf("%s: %d bytes without a StatefulSet", file, len(first))
		}
	}
}
