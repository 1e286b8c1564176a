package kubernetes_test

import (
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRowNodeDrain drains the node of one replica as an administrator does: the
// disruption budgets let one replica and one NATS server go at a time, and both find
// a place elsewhere.
func TestRowNodeDrain(t *testing.T) {
	s := start(t)
	nodes, err := cluster.CoreV1().Nodes().List(t.Context(), meta.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(nodes.Items) < 3 {
		t.Skipf("a drain needs a place to go: the cluster has %d nodes", len(nodes.Items))
	}
	l := s.load(t)
	before := s.pod(t, 0)
	node := before.Spec.NodeName
	fewest := s.fewestReady(t)
	s.nodes = append(s.nodes, node)
	began := time.Now()
	// Volumes of the lab stay on their node, and so do the servers of NATS and the
	// database: they are another row's. Releases of others stay, too.
	cluster.mustRun(t, "kubectl", "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=3m",
		"--pod-selector=e2e="+s.release.namespace)
	row(t, "node drain: the replica has left it", "one at a time, by the budget", time.Since(began))
	s.ready(t, s.release.namespace, s.podName(0), before)
	row(t, "node drain: it is ready on another node", "-", time.Since(began))
	if at := s.pod(t, 0).Spec.NodeName; at == node {
		t.Errorf("%s is on the drained node", s.podName(0))
	}
	if n := fewest(); n < 1 {
		t.Errorf("for a moment %d replicas were ready", n)
	}
	cluster.mustRun(t, "kubectl", "uncordon", node)
	s.whole(t)
	row(t, "node drain: everything flows", "-", l.flows(t, time.Now()))
	row(t, "node drain: in all", "no false will, nothing lost", l.finish(t))
}
