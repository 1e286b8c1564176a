package kubernetes_test

import (
	"testing"
	"time"

	core "k8s.io/api/core/v1"

	"maestrohub.io/uns/tests/kubernetes/way"
)

// toPod is an address at which this machine reaches a port of a pod.
func (k *kube) toPod(t *testing.T, pod *core.Pod, port int) string {
	t.Helper()
	address, err := k.ways.ToPod(pod, port)
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// toService is an address at which this machine reaches a port of a Service; "" is its
// first.
func (k *kube) toService(t *testing.T, namespace, name, port string) string {
	t.Helper()
	address, err := k.ways.ToService(t.Context(), namespace, name, port)
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// answersSoon reports whether a door of a cluster is open to this machine. It gives
// policies, and a load balancer's name, the moment that they take. On a lab a door that
// does not answer is a fault, which is left to whoever connects.
func (k *kube) answersSoon(t *testing.T, address string) bool {
	t.Helper()
	if k.isLab(t.Context()) == nil {
		return true
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < 10*time.Second; <-tick.C {
		if way.Answers(t.Context(), address, 5*time.Second) {
			return true
		}
	}
	return false
}
