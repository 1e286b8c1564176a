package balancer

import (
	"net/netip"
	"testing"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
)

// table is routes in memory.
type table map[netip.Addr]netip.Addr

func (t table) Lead(address, gateway netip.Addr) error { t[address] = gateway; return nil }
func (t table) Drop(address netip.Addr) error          { delete(t, address); return nil }

func node(name, address string, ready core.ConditionStatus) *core.Node {
	return &core.Node{ObjectMeta: meta.ObjectMeta{Name: name}, Status: core.NodeStatus{
		Addresses:  []core.NodeAddress{{Type: core.NodeInternalIP, Address: address}},
		Conditions: []core.NodeCondition{{Type: core.NodeReady, Status: ready}},
	}}
}

func service(name string, policy core.ServiceExternalTrafficPolicy) *core.Service {
	return &core.Service{ObjectMeta: meta.ObjectMeta{Namespace: "ns", Name: name},
		Spec: core.ServiceSpec{Type: core.ServiceTypeLoadBalancer, ExternalTrafficPolicy: policy}}
}

func endpoint(service, node string, ready bool) *discovery.EndpointSlice {
	return &discovery.EndpointSlice{ObjectMeta: meta.ObjectMeta{Namespace: "ns", Name: service + "-" + node, Labels: map[string]string{discovery.LabelServiceName: service}},
		Endpoints: []discovery.Endpoint{{NodeName: &node, Conditions: discovery.EndpointConditions{Ready: &ready}}}}
}

// look brings a balancer to what it sees of the objects.
func look(t *testing.T, b *balancer) {
	t.Helper()
	b.factory.Core().V1().Services().Informer()
	b.factory.Core().V1().Nodes().Informer()
	b.factory.Discovery().V1().EndpointSlices().Informer()
	b.factory.Start(t.Context().Done())
	b.factory.WaitForCacheSync(t.Context().Done())
	if err := b.sync(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func with(objects ...runtime.Object) (*balancer, table, *fake.Clientset) {
	client, routes := fake.NewClientset(objects...), table{}
	return newBalancer(client, netip.MustParsePrefix("172.31.251.0/29"), routes), routes, client
}

func TestEachServiceHasAnAddressOfItsOwnThatLeadsToAReadyNode(t *testing.T) {
	b, routes, client := with(node("node1", "10.0.0.1", core.ConditionFalse), node("node2", "10.0.0.2", core.ConditionTrue),
		service("a", core.ServiceExternalTrafficPolicyCluster), service("b", core.ServiceExternalTrafficPolicyCluster))
	look(t, b)
	if len(routes) != 2 {
		t.Fatalf("routes %v", routes)
	}
	for address, gateway := range routes {
		if gateway != netip.MustParseAddr("10.0.0.2") {
			t.Errorf("%s goes over %s, which is not ready", address, gateway)
		}
	}
	seen := map[string]bool{}
	for _, name := range []string{"a", "b"} {
		s, err := client.CoreV1().Services("ns").Get(t.Context(), name, meta.GetOptions{})
		if err != nil || len(s.Status.LoadBalancer.Ingress) != 1 {
			t.Fatalf("%s: %+v, %v", name, s.Status, err)
		}
		seen[s.Status.LoadBalancer.Ingress[0].IP] = true
	}
	if len(seen) != 2 {
		t.Errorf("both have %v", seen)
	}
}

func TestTheLocalPolicyLeadsToANodeWithAReadyEndpoint(t *testing.T) {
	b, routes, _ := with(node("node1", "10.0.0.1", core.ConditionTrue), node("node2", "10.0.0.2", core.ConditionTrue), node("node3", "10.0.0.3", core.ConditionTrue),
		service("a", core.ServiceExternalTrafficPolicyLocal), endpoint("a", "node2", false), endpoint("a", "node3", true), endpoint("b", "node1", true))
	look(t, b)
	for address, gateway := range routes {
		if gateway != netip.MustParseAddr("10.0.0.3") {
			t.Errorf("%s goes over %s", address, gateway)
		}
	}
	if len(routes) != 1 {
		t.Errorf("routes %v", routes)
	}
}

func TestARouteStaysWhileItsNodeServesAndMovesWhenItDoesNot(t *testing.T) {
	address := netip.MustParseAddr("172.31.251.1")
	b, routes, _ := with(node("node1", "10.0.0.1", core.ConditionTrue), node("node2", "10.0.0.2", core.ConditionTrue), service("a", ""))
	b.led[address], routes[address] = netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.2")
	look(t, b)
	if routes[address] != netip.MustParseAddr("10.0.0.2") {
		t.Errorf("it moved to %s though its node serves", routes[address])
	}
	b.led[address], routes[address] = netip.MustParseAddr("10.0.0.9"), netip.MustParseAddr("10.0.0.9")
	look(t, b)
	if routes[address] != netip.MustParseAddr("10.0.0.1") {
		t.Errorf("it goes over %s", routes[address])
	}
}

func TestAServiceThatIsNoMoreHasNoRoute(t *testing.T) {
	gone := netip.MustParseAddr("172.31.251.3")
	b, routes, _ := with(node("node1", "10.0.0.1", core.ConditionTrue))
	b.led[gone], routes[gone] = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.1")
	look(t, b)
	if len(routes) != 0 || len(b.led) != 0 {
		t.Errorf("routes %v", routes)
	}
}

func TestAPoolThatIsUsedUpIsSaid(t *testing.T) {
	b, _, _ := with()
	used := map[netip.Addr]bool{}
	for a := b.pool.Addr(); b.pool.Contains(a); a = a.Next() {
		used[a] = true
	}
	if _, err := b.free(used); err == nil {
		t.Error("there was an address")
	}
}
