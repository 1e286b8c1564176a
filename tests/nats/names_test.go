package nats_test

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/tests/contract"
)

// typed are the rendered objects of one type.
func typed[T any](t *testing.T, r *contract.Release) (all []T) {
	t.Helper()
	for _, o := range r.Objects {
		object, known, err := o.Typed()
		must(t, err)
		if x, is := object.(T); known && is {
			all = append(all, x)
		}
	}
	return all
}

// TestTheBackupPageNamesWhatIsThere: every name on the page is one of the chart's.
func TestTheBackupPageNamesWhatIsThere(t *testing.T) {
	i := install(t, map[string]any{"backup": map[string]any{"enabled": true}}, nil)
	text, err := os.ReadFile("../../runbooks/backup-and-restore.md")
	must(t, err)
	page := string(text)
	for _, name := range []string{state.SessionState, state.SessionCursor, state.SessionWill, state.SessionQoS2, state.Retained, state.ClusterFloor,
		state.Sessions, state.Routes, state.Members, state.Locks, state.APIClients} {
		if !strings.Contains(page, "`"+state.BucketStream+name+"`") {
			t.Errorf("the page says nothing of %s", state.BucketStream+name)
		}
	}
	if !strings.Contains(page, state.LogStream+"<workspace id>") || !strings.Contains(page, state.SweepLock) {
		t.Errorf("the page does not name %s or %s", state.LogStream, state.SweepLock)
	}
	set := false
	for _, s := range typed[*appsv1.StatefulSet](t, i.release) {
		set = set || s.Name == "maestrohub-uns" && s.Namespace == "maestrohub" && s.Spec.Template.Labels["app.kubernetes.io/name"] == "uns"
	}
	service := false
	for _, s := range typed[*corev1.Service](t, i.release) {
		service = service || s.Name == "maestrohub-nats" && s.Namespace == "maestrohub-deps" && s.Spec.Ports[0].Port == 4222
	}
	if !set || !service {
		t.Errorf("StatefulSet maestrohub-uns: %v, Service maestrohub-nats: %v", set, service)
	}
	jobs := map[string]*batchv1.CronJob{}
	for _, c := range typed[*batchv1.CronJob](t, i.release) {
		jobs[c.Name] = c
	}
	save, restore := jobs["maestrohub-uns-backup"], jobs["maestrohub-uns-restore"]
	if save == nil || restore == nil {
		t.Fatalf("there are CronJobs %v", jobs)
	}
	if s := save.Spec.Suspend; s != nil && *s {
		t.Error("the backup is suspended")
	}
	if s := restore.Spec.Suspend; s == nil || !*s {
		t.Error("the restore would run by itself")
	}
	args := restore.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Args
	if !slices.Contains(args, "--replace=false") || !slices.Contains(args, "/backup/latest") {
		t.Errorf("the restore Job has %q: the page replaces --replace=false", args)
	}
	if len(i.secret(t, "maestrohub", "maestrohub-nats-auth-uns")["broker"]) == 0 {
		t.Error("maestrohub-nats-auth-uns has no key broker")
	}
	for _, key := range []string{"ca.crt", "tls.crt", "tls.key"} {
		if len(i.secret(t, "maestrohub", "maestrohub-nats-client-tls")[key]) == 0 {
			t.Errorf("maestrohub-nats-client-tls has no key %s", key)
		}
	}
	block, _ := pem.Decode(i.secret(t, "maestrohub-deps", "maestrohub-nats-server-tls")["tls.crt"])
	cert, err := x509.ParseCertificate(block.Bytes)
	must(t, err)
	for name, want := range map[string]bool{serviceName: true, "maestrohub-nats": true, "maestrohub-nats-2.maestrohub-nats-headless": true, "localhost": false, "127.0.0.1": false} {
		if err := cert.VerifyHostname(name); (err == nil) != want {
			t.Errorf("the servers' certificate for %s: %v, want valid: %v", name, err, want)
		}
	}
}

// TestWhoReachesNATS evaluates the rendered policy for pods of the installation and others.
func TestWhoReachesNATS(t *testing.T) {
	i := install(t, map[string]any{"networkPolicy": map[string]any{"enabled": true}, "backup": map[string]any{"enabled": true}}, nil)
	var policy *networkingv1.NetworkPolicy
	for _, p := range typed[*networkingv1.NetworkPolicy](t, i.release) {
		if p.Name == "maestrohub-nats" {
			policy = p
		}
	}
	if policy == nil {
		t.Fatal("no policy for NATS")
	}
	matches := func(s *metav1.LabelSelector, set map[string]string) bool {
		selector, err := metav1.LabelSelectorAsSelector(s)
		must(t, err)
		return selector.Matches(labels.Set(set))
	}
	reaches := func(namespace string, pod map[string]string, port int) bool {
		for _, rule := range policy.Spec.Ingress {
			open := slices.ContainsFunc(rule.Ports, func(p networkingv1.NetworkPolicyPort) bool { return p.Port.IntValue() == port })
			for _, from := range rule.From {
				here := from.NamespaceSelector == nil && namespace == policy.Namespace ||
					from.NamespaceSelector != nil && matches(from.NamespaceSelector, map[string]string{"kubernetes.io/metadata.name": namespace})
				if open && here && (from.PodSelector == nil || matches(from.PodSelector, pod)) {
					return true
				}
			}
			if open && len(rule.From) == 0 {
				return true
			}
		}
		return false
	}
	who := func(name, instance string) map[string]string {
		return map[string]string{"app.kubernetes.io/name": name, "app.kubernetes.io/instance": instance}
	}
	for _, c := range []struct {
		namespace string
		pod       map[string]string
		ports     []int
	}{
		{"maestrohub", who("uns", "maestrohub"), []int{4222}},
		{"maestrohub", who("uns-backup", "maestrohub"), []int{4222}},
		{"maestrohub-deps", who("nats", "maestrohub"), []int{6222}},
		{"monitoring", who("prometheus", "any"), []int{8222}},
		{"maestrohub", who("helm-test", "maestrohub"), nil},
		{"maestrohub", who("uns", "another"), nil},
		{"other", who("uns", "maestrohub"), nil},
		{"other", who("nats", "maestrohub"), nil},
		{"maestrohub-deps", who("nats", "another"), nil},
		{"maestrohub-deps", map[string]string{}, nil},
	} {
		for _, port := range []int{4222, 6222, 8222} {
			if got, want := reaches(c.namespace, c.pod, port), slices.Contains(c.ports, port); got != want {
				t.Errorf("pod %v in %s to %d: %v, want %v", c.pod, c.namespace, port, got, want)
			}
		}
	}
}

// TestARollingRestartKeepsAQuorum: the figures of the set and its budget together.
func TestARollingRestartKeepsAQuorum(t *testing.T) {
	i := install(t, nil, nil)
	if i.set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
		t.Error("servers start one after the other: the first is never ready alone")
	}
	if u := i.set.Spec.UpdateStrategy.RollingUpdate; u != nil && u.MaxUnavailable != nil && u.MaxUnavailable.IntValue() > 1 {
		t.Errorf("an update takes %v servers at once", u.MaxUnavailable)
	}
	if i.set.Spec.MinReadySeconds < 10 {
		t.Errorf("an update goes on %d s after a server is ready", i.set.Spec.MinReadySeconds)
	}
	budgets := 0
	for _, b := range typed[*policyv1.PodDisruptionBudget](t, i.release) {
		if b.Name != "maestrohub-nats" {
			continue
		}
		budgets++
		if b.Spec.MaxUnavailable.IntValue() != 1 || *b.Spec.UnhealthyPodEvictionPolicy != policyv1.IfHealthyBudget {
			t.Errorf("the budget is %+v", b.Spec)
		}
	}
	if budgets != 1 {
		t.Errorf("%d budgets for NATS, want 1", budgets)
	}
	if r := i.set.Spec.PersistentVolumeClaimRetentionPolicy; r.WhenDeleted != "Retain" || r.WhenScaled != "Retain" {
		t.Errorf("volumes are %+v when the set goes", r)
	}
	for _, b := range typed[*policyv1.PodDisruptionBudget](t, install(t, map[string]any{"global": map[string]any{"natsReplicas": 1}}, nil).release) {
		if b.Name == "maestrohub-nats" {
			t.Error("a single server has a budget: it could never be evicted")
		}
	}
}
