package kubernetes_test

import (
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tools/launch"
)

// TestAnExternalNATS installs replicas without NATS beside one that somebody else runs,
// with a user, a password and mutual TLS: what they share is in there. The somebody
// is another release, whose replicas are stopped.
func TestAnExternalNATS(t *testing.T) {
	installations.enter(t)
	theirs := install(t, &release{name: "plant", namespace: "e2e-plant", files: []string{"values-local-lab.yaml"}, values: merge(small, map[string]any{
		"uns":     map[string]any{"stopped": true, "replicas": 1},
		"storage": map[string]any{"type": "embedded", "timescale": map[string]any{"bundled": map[string]any{"enabled": false}}},
	})})
	service, err := cluster.CoreV1().Services(theirs.deps()).Get(t.Context(), theirs.nats(), meta.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("%s.%s.svc", service.Name, service.Namespace)

	r := &release{name: "external", namespace: "e2e-external", files: []string{"values-local-lab.yaml"}, values: merge(small, map[string]any{
		"nats": map[string]any{"enabled": false},
		"externalNats": map[string]any{"urls": []any{"tls://" + net.JoinHostPort(address, strconv.Itoa(int(service.Spec.Ports[0].Port)))}, "user": "uns-broker",
			"passwordSecretName": "their-password", "passwordSecretKey": "broker", "tlsSecretName": "their-tls", "mutual": true},
	})}
	t.Cleanup(func() { r.remove(t) })
	if err := cluster.makeNamespace(t.Context(), r.namespace); err != nil {
		t.Fatal(err)
	}
	// What its owner hands over.
	for mine, name := range map[string]string{"their-password": "maestrohub-nats-auth-uns", "their-tls": "maestrohub-nats-client-tls"} {
		secret, err := cluster.CoreV1().Secrets(theirs.namespace).Get(t.Context(), name, meta.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		handed := &core.Secret{ObjectMeta: meta.ObjectMeta{Name: mine}, Type: secret.Type, Data: secret.Data}
		if _, err := cluster.CoreV1().Secrets(r.namespace).Create(t.Context(), handed, meta.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	if err := r.apply(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	row(t, "helm install with nats.enabled=false and externalNats: ready", "two replicas, their NATS", time.Since(began))
	row(t, "helm test on it", "a device's way, once", r.helmTest(t))
	if pods, err := cluster.pods(t.Context(), r.deps(), "nats"); err != nil || len(pods) > 0 {
		t.Errorf("%d servers of NATS of its own, %v", len(pods), err)
	}

	// What a session was owed on one replica it gets on the other.
	replicas, err := cluster.pods(t.Context(), r.namespace, "uns")
	if err != nil || len(replicas) != 2 {
		t.Fatalf("%d replicas, %v", len(replicas), err)
	}
	at := func(i int) *harness.Broker {
		return harness.Attach(&launch.Broker{TCP: cluster.toPod(t, &replicas[i], 1883), HTTP: cluster.toPod(t, &replicas[i], 8080)}, clients)
	}
	session, _ := away(t, at(0), "external-session")
	if code := session.Subscribe(harness.Data("external/#"), 1); code != mqtt.GrantedQoS1 {
		t.Fatalf("SUBACK %v", code)
	}
	leave(session)
	if code := at(0).Client(t, "device", "external-publisher").Publish(harness.Inbox("device", "external/x"), 1, "42"); code != mqtt.Success {
		t.Fatalf("PUBACK %v", code)
	}
	session, present := away(t, at(1), "external-session")
	if !present {
		t.Fatal("the other replica does not know the session")
	}
	if p := session.Receive(); string(p.Payload) != "42" {
		t.Errorf("the session got %q, want what was published while it was away", p.Payload)
	}
	row(t, "external NATS: a session resumes on the other replica", "with what it is owed", "all there")
}
