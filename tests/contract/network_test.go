package contract

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// peer is a pod as policies see it. Ports are its containers', by name.
type peer struct {
	name, namespace string
	labels          labels.Set
	ports           map[string]int32
}

// allowed says whether the policies of a release let one pod open a connection to a
// port of another: its own egress and the other's ingress, each open if no policy
// selects the pod.
func allowed(t *testing.T, policies []*networkingv1.NetworkPolicy, from, to peer, port int32) bool {
	t.Helper()
	return passes(t, policies, from, to, port, networkingv1.PolicyTypeEgress) && passes(t, policies, from, to, port, networkingv1.PolicyTypeIngress)
}

func passes(t *testing.T, policies []*networkingv1.NetworkPolicy, from, to peer, port int32, way networkingv1.PolicyType) bool {
	t.Helper()
	own, other := from, to
	if way == networkingv1.PolicyTypeIngress {
		own, other = to, from
	}
	selected := false
	for _, p := range policies {
		if p.Namespace != own.namespace || !slices.Contains(p.Spec.PolicyTypes, way) || !selects(t, &p.Spec.PodSelector, own.labels) {
			continue
		}
		selected = true
		if way == networkingv1.PolicyTypeEgress {
			for _, rule := range p.Spec.Egress {
				if meets(t, p.Namespace, rule.To, other) && opens(rule.Ports, to, port) {
					return true
				}
			}
			continue
		}
		for _, rule := range p.Spec.Ingress {
			if meets(t, p.Namespace, rule.From, other) && opens(rule.Ports, to, port) {
				return true
			}
		}
	}
	return !selected
}

func meets(t *testing.T, namespace string, peers []networkingv1.NetworkPolicyPeer, other peer) bool {
	t.Helper()
	for _, p := range peers {
		switch {
		case p.IPBlock != nil: // pods of the test have no addresses
		case p.NamespaceSelector == nil && other.namespace != namespace:
		case p.NamespaceSelector != nil && !selects(t, p.NamespaceSelector, labels.Set{"kubernetes.io/metadata.name": other.namespace}):
		case p.PodSelector != nil && !selects(t, p.PodSelector, other.labels):
		default:
			return true
		}
	}
	return len(peers) == 0
}

func opens(ports []networkingv1.NetworkPolicyPort, to peer, port int32) bool {
	for _, p := range ports {
		if p.Protocol != nil && *p.Protocol != corev1.ProtocolTCP {
			continue
		}
		if p.Port == nil || p.Port.IntVal == port || p.Port.StrVal != "" && to.ports[p.Port.StrVal] == port {
			return true
		}
	}
	return len(ports) == 0
}

func selects(t *testing.T, selector *metav1.LabelSelector, of labels.Set) bool {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return s.Matches(of)
}

// What may reach what with the policies on: everything else may not.
func TestThePoliciesLetInWhomTheyShouldAndNobodyElse(t *testing.T) {
	production, err := ValuesFile(folder + "/values-production.yaml")
	if err != nil {
		t.Fatal(err)
	}
	devices := labels.Set{"role": "gateway"}
	r := render(t, Merged(production, map[string]any{
		"networkPolicy": map[string]any{"mqttFrom": []any{map[string]any{"podSelector": map[string]any{"matchLabels": map[string]any{"role": "gateway"}}}}},
		"backup":        map[string]any{"enabled": true},
		"storage":       map[string]any{"timescale": map[string]any{"existingSecret": "", "bundled": map[string]any{"enabled": true}}},
	}))
	var policies []*networkingv1.NetworkPolicy
	for _, o := range r.Of("NetworkPolicy") {
		object, _, err := o.Typed()
		if err != nil {
			t.Fatal(err)
		}
		policies = append(policies, object.(*networkingv1.NetworkPolicy))
	}
	at := make(map[string]peer)
	for _, p := range pods(t, r) {
		all := peer{name: p.meta.Labels["app.kubernetes.io/name"], namespace: p.of.Text("metadata", "namespace"), labels: p.meta.Labels, ports: map[string]int32{}}
		for _, c := range p.containers() {
			for _, port := range c.Ports {
				all.ports[port.Name] = port.ContainerPort
			}
		}
		at[all.name] = all
	}
	at["gateway"] = peer{name: "gateway", namespace: "maestrohub", labels: devices}
	at["stranger"] = peer{name: "stranger", namespace: "maestrohub", labels: labels.Set{"app": "x"}}
	at["foreigner"] = peer{name: "foreigner", namespace: "elsewhere", labels: labels.Set{"app.kubernetes.io/name": "uns", "app.kubernetes.io/instance": "maestrohub", "app.kubernetes.io/part-of": "maestrohub"}}
	at["prometheus"] = peer{name: "prometheus", namespace: "monitoring", labels: labels.Set{"app.kubernetes.io/name": "prometheus"}}

	expected := map[string]bool{
		"gateway → uns 1883": true, "helm-test → uns 1883": true, "helm-test → uns 8080": true,
		"uns → uns 1883": false, "uns → uns 7884": true, "uns → uns 8080": false, // a replica asks another over the mesh alone
		"prometheus → uns 8080": true, "uns → nats 4222": true, "nats → nats 6222": true, "uns → timescale 5432": true,
	}
	for _, to := range []string{"uns", "nats", "timescale"} {
		for _, port := range at[to].ports {
			for _, from := range []string{"gateway", "stranger", "foreigner", "prometheus", "helm-test", "uns", "nats", "timescale"} {
				way := fmt.Sprintf("%s → %s %d", from, to, port)
				if got := allowed(t, policies, at[from], at[to], port); got != expected[way] {
					// The exporter of NATS is Prometheus's to read.
					if from == "prometheus" && to == "nats" && got && (port == 7777 || port == 8222) {
						continue
					}
					t.Errorf("%s: %v, want %v", way, got, expected[way])
				}
			}
		}
	}
	if len(at["uns"].ports) < 3 || len(at["nats"].ports) < 2 || len(at["timescale"].ports) != 1 {
		t.Errorf("ports: %v, %v, %v", at["uns"].ports, at["nats"].ports, at["timescale"].ports)
	}
	// In namespaces where everything is forbidden that no policy allows, the chart brings what its own pods need.
	for _, namespace := range []string{"maestrohub", "maestrohub-deps"} {
		policies = append(policies, &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace},
			Spec: networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}}})
	}
	server := peer{name: "API server", namespace: "default"}
	for _, job := range []string{"secrets", "namespace"} {
		if at[job].name == "" || !allowed(t, policies, at[job], server, 6443) {
			t.Errorf("the Job %s does not reach the API server: %+v", job, at[job])
		}
		if allowed(t, policies, at["stranger"], at[job], 8080) {
			t.Errorf("a stranger reaches the Job %s", job)
		}
	}
	for _, way := range []struct {
		from, to string
		port     int32
	}{{"helm-test", "uns", 1883}, {"helm-test", "uns", 8080}, {"uns", "uns", 7884}, {"uns", "nats", 4222}, {"uns-backup", "nats", 4222}, {"nats", "nats", 6222}, {"uns", "timescale", 5432}} {
		if at[way.from].name == "" || !allowed(t, policies, at[way.from], at[way.to], way.port) {
			t.Errorf("%s does not reach %s %d where everything else is forbidden", way.from, way.to, way.port)
		}
	}
	dns := peer{name: "dns", namespace: "kube-system", labels: labels.Set{"k8s-app": "kube-dns"}}
	if !allowed(t, policies, at["uns"], dns, 53) {
		t.Error("a replica reaches no DNS")
	}
}
