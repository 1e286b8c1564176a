package kubernetes_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
)

// TestHelmTemplateAndKubectlApply gives the commands of the chart's page for a cluster
// without Helm in it: the Job makes the Secrets once. What is applied again changes
// none, whether the values call them the chart's or the user's; where some are lost,
// the Job refuses by name and makes nothing.
func TestHelmTemplateAndKubectlApply(t *testing.T) {
	installations.enter(t)
	define(t, prometheusOperator)
	all := pagesOf(t, "TestHelmTemplateAndKubectlApply")
	if len(all) != 1 || len(all[0].Blocks) != 1 {
		t.Fatalf("%d pages, %d blocks, want one", len(all), len(all[0].Blocks))
	}
	r := &release{name: "maestrohub", namespace: "maestrohub"}
	r.mustBeNew(t)
	t.Cleanup(func() { r.remove(t) })
	repository, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	// As the page has it, for nodes of two cores and with the clients of these tests.
	o := newOperator(t, r)
	namespaces, apply, found := strings.Cut(all[0].Blocks[0].Text, "helm template ")
	with := func(values map[string]any) string {
		file := valuesFile(t, merge(small, values))
		return "cd '" + repository + "'\nhelm template " + strings.Replace(apply, " | kubectl ", " -f '"+file+"' | kubectl ", 1)
	}
	if !found || !strings.Contains(apply, " | kubectl apply") {
		t.Fatalf("the page's block pipes no `helm template` into `kubectl apply`:\n%s", all[0].Blocks[0].Text)
	}
	o.runs(t, namespaces)
	startDatabase(t, r.namespace)
	theirs := secretsOf(t, r.namespace, r.deps())
	began := time.Now()
	o.runs(t, with(nil))
	r.jobs(t)
	row(t, "helm template | kubectl apply: the Job has made every Secret", "once", time.Since(began))
	for namespace, set := range map[string]string{r.deps(): r.nats(), r.namespace: r.uns()} {
		cluster.mustRun(t, "kubectl", "-n", namespace, "rollout", "status", "statefulset/"+set, "--timeout=5m")
	}
	row(t, "helm template | kubectl apply: ready", "two replicas, mutual TLS, accounts", time.Since(began))
	b := r.reach(t)
	if code := b.Client(t, "device", "gitops").Publish(harness.Inbox("device", "gitops/x"), 1, "42"); code != mqtt.Success {
		t.Fatalf("PUBACK %v", code)
	}

	made, pods := secretsOf(t, r.namespace, r.deps()), r.uids(t)
	if len(made) < len(theirs)+10 {
		t.Fatalf("the Job made only %q", different(theirs, made))
	}
	same := func(when string) {
		t.Helper()
		if changed := different(made, secretsOf(t, r.namespace, r.deps())); len(changed) > 0 {
			t.Errorf("%s, these differ: %q", when, changed)
		}
		if now := r.uids(t); now != pods {
			t.Errorf("%s, pods were replaced: %s, before %s", when, now, pods)
		}
	}
	o.runs(t, with(nil))
	same("applied again")
	yours := map[string]any{
		"global": map[string]any{"natsAuth": map[string]any{"create": false}, "natsTLS": map[string]any{"create": false}},
		"uns":    map[string]any{"mqtt": map[string]any{"embedded": map[string]any{"mesh": map[string]any{"existingSecret": r.uns() + "-mesh-tls"}}}},
	}
	o.runs(t, with(yours))
	r.jobs(t)
	same("applied with values that call the Secrets the user's")
	row(t, "applied again, and with Secrets of one's own", "no secret changes, no pod restarts", fmt.Sprintf("%d secret keys the same", len(made)))

	// Half of NATS's certificates is lost; later, the user's own are.
	for namespace, name := range map[string]string{r.deps(): "maestrohub-nats-ca", r.namespace: "maestrohub-nats-client-tls"} {
		cluster.mustRun(t, "kubectl", "-n", namespace, "delete", "secret", name)
	}
	lost := secretsOf(t, r.namespace, r.deps())
	for _, c := range []struct {
		values map[string]any
		want   string
	}{
		{nil, "Secret maestrohub-deps/maestrohub-nats-ca (NATS authority) is missing, and Secret maestrohub/maestrohub-nats-client-tls is missing too"},
		{yours, "Secret maestrohub/maestrohub-nats-client-tls (NATS client certificate) does not exist, and the values say that it is yours"},
	} {
		cluster.mustRun(t, "kubectl", "-n", r.namespace, "delete", "jobs", "--selector", secretJobs, "--cascade=foreground")
		began := time.Now()
		o.runs(t, with(c.values))
		if said := r.refusal(t); !strings.Contains(said, c.want) {
			t.Errorf("the Job said\n%s\nwant %q", said, c.want)
		}
		row(t, "applied without a Secret: refused, by its name", "nothing is made", time.Since(began))
		if changed := different(lost, secretsOf(t, r.namespace, r.deps())); len(changed) > 0 {
			t.Errorf("a refusal changed %q", changed)
		}
		if now := r.uids(t); now != pods {
			t.Errorf("a refusal replaced pods: %s, before %s", now, pods)
		}
	}
}

// secretJobs selects the Job that makes Secrets, and its pods.
const secretJobs = "app.kubernetes.io/name=secrets"

// jobs waits until every Job that makes Secrets is done.
func (r *release) jobs(t *testing.T) {
	t.Helper()
	until(t, 3*time.Minute, "the Jobs that make Secrets to be done", func() (bool, string) {
		jobs, err := cluster.BatchV1().Jobs(r.namespace).List(t.Context(), meta.ListOptions{LabelSelector: secretJobs})
		if err != nil {
			return false, err.Error()
		}
		done, now := len(jobs.Items) > 0, ""
		for _, j := range jobs.Items {
			done = done && j.Status.Succeeded > 0
			now += fmt.Sprintf("%s: %d succeeded, %d failed; ", j.Name, j.Status.Succeeded, j.Status.Failed)
		}
		return done, now
	})
}

// refusal waits until a pod of the Job that makes Secrets has failed, and returns what
// it said.
func (r *release) refusal(t *testing.T) (said string) {
	t.Helper()
	until(t, 2*time.Minute, "the Job that makes Secrets to refuse", func() (bool, string) {
		pods, err := cluster.CoreV1().Pods(r.namespace).List(t.Context(), meta.ListOptions{LabelSelector: secretJobs})
		if err != nil {
			return false, err.Error()
		}
		now := ""
		for _, p := range pods.Items {
			now += fmt.Sprintf("%s is %s; ", p.Name, p.Status.Phase)
			if p.Status.Phase == core.PodFailed && p.DeletionTimestamp == nil {
				said = cluster.mustRun(t, "kubectl", "-n", r.namespace, "logs", p.Name)
				return true, ""
			}
		}
		return false, now
	})
	return said
}

// uids are the pods of the release's StatefulSets.
func (r *release) uids(t *testing.T) string {
	t.Helper()
	var all []string
	for namespace, component := range map[string]string{r.namespace: "uns", r.deps(): "nats"} {
		pods, err := cluster.pods(t.Context(), namespace, component)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pods {
			all = append(all, p.Name+" "+string(p.UID))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
