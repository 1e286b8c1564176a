package kubernetes_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestRowOneNATSServerKilled(t *testing.T) {
	cluster.needLab(t)
	s := start(t)
	l := s.load(t)
	for i := range 3 {
		name := fmt.Sprintf("%s-%d", s.release.nats(), i)
		before, err := cluster.CoreV1().Pods(s.release.deps()).Get(t.Context(), name, meta.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		cluster.lab(t, "kill", s.release.deps()+"/"+name, "nats")
		killed := time.Now()
		row(t, "NATS server killed: everything flows, from the kill of "+name, "elections waited out, 15 s", l.flows(t, killed))
		row(t, "NATS server killed: connections of devices lost", "0", l.lost(killed))
		if n := l.lost(killed); n > 0 {
			t.Errorf("%d devices were disconnected by the loss of one NATS server", n)
		}
		s.ready(t, s.release.deps(), name, before)
	}
	s.whole(t)
	row(t, "NATS server killed: in all", "nothing lost", l.finish(t))
}

func TestRowNATSRollingRestart(t *testing.T) {
	s := start(t)
	l := s.load(t)
	began := time.Now()
	cluster.mustRun(t, "kubectl", "-n", s.release.deps(), "rollout", "restart", "statefulset/"+s.release.nats())
	guarded := 0
	until(t, 8*time.Minute, "every NATS server to be new", func() (bool, string) {
		guarded += s.guarded(t)
		set, err := cluster.AppsV1().StatefulSets(s.release.deps()).Get(t.Context(), s.release.nats(), meta.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return rolledOut(set), fmt.Sprintf("%d updated, %d ready", set.Status.UpdatedReplicas, set.Status.ReadyReplicas)
	})
	row(t, "NATS rolling restart: every server is new and ready", "never without quorum", time.Since(began))
	if guarded == 0 {
		t.Error("while one server was away, none was seen to be kept from going as well: that is what the disruption budget is for")
	}
	row(t, "NATS rolling restart: moments at which a second server was kept from going", "by the budget", guarded)
	lost := l.lost(began)
	row(t, "NATS rolling restart: connections of devices lost", "0", lost)
	if lost > 0 {
		t.Errorf("%d connections of devices were lost while NATS was restarted server by server", lost)
	}
	row(t, "NATS rolling restart: in all", "nothing lost", l.finish(t))
}

// guarded is how many servers of NATS could not be evicted just now because another
// was away. Nothing is evicted.
func (s *site) guarded(t *testing.T) (refused int) {
	t.Helper()
	pods, err := cluster.pods(t.Context(), s.release.deps(), "nats")
	if err != nil {
		return 0 // the API server is busy; the next look is soon
	}
	ready := slices.DeleteFunc(slices.Clone(pods), func(p core.Pod) bool { return !isReady(&p) })
	if len(ready) != 2 {
		return 0
	}
	for _, p := range ready {
		err := cluster.PolicyV1().Evictions(p.Namespace).Evict(t.Context(), &policy.Eviction{
			ObjectMeta: meta.ObjectMeta{Name: p.Name, Namespace: p.Namespace}, DeleteOptions: &meta.DeleteOptions{DryRun: []string{meta.DryRunAll}}})
		if apierrors.IsTooManyRequests(err) {
			refused++
		}
	}
	return refused
}

func rolledOut(set *apps.StatefulSet) bool {
	s := set.Status
	return s.ObservedGeneration >= set.Generation && s.UpdateRevision == s.CurrentRevision &&
		s.UpdatedReplicas == *set.Spec.Replicas && s.ReadyReplicas == *set.Spec.Replicas
}
