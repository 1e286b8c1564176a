package kubernetes_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
)

// objects lists what a release has in a namespace, as "kind/name", what Kubernetes
// itself keeps in every one left out.
func objects(t *testing.T, namespace string) (found []string) {
	t.Helper()
	kinds := "statefulsets,deployments,daemonsets,services,configmaps,jobs,cronjobs,pods,networkpolicies,poddisruptionbudgets,serviceaccounts,roles,rolebindings,persistentvolumeclaims,secrets"
	for _, name := range strings.Fields(cluster.mustRun(t, "kubectl", "-n", namespace, "get", kinds, "-o", "name")) {
		kind, rest, _ := strings.Cut(name, "/")
		kind, _, _ = strings.Cut(kind, ".")
		if rest == "kube-root-ca.crt" || name == "serviceaccount/default" || strings.HasPrefix(rest, "sh.helm.release") {
			continue
		}
		found = append(found, kind+"/"+rest)
	}
	slices.Sort(found)
	return found
}

// TestUninstallLeavesWhatItShould takes the shared release away and installs it again:
// volumes, Secrets and the namespace of NATS stay, nothing else does; the new
// installation uses them, changes none, and finds its sessions and its history.
func TestUninstallLeavesWhatItShould(t *testing.T) {
	s := start(t)
	r := s.release
	b := s.service(t)
	session := b.ConnectAs("device", fmt.Sprintf("uninstall-session-%d", time.Now().Unix()))
	session.CleanStart, session.SessionExpiry = false, 3600
	c := b.Dial(t)
	c.Connect(session)
	if code := c.Subscribe(harness.Data("uninstall/#"), 1); code != mqtt.GrantedQoS1 {
		t.Fatalf("SUBACK %v", code)
	}
	c.Send((&mqtt.Disconnect{}).Append(nil, mqtt.V5))
	c.ExpectClosed()
	if code := b.Client(t, "device", "uninstall-publisher").Publish(harness.Inbox("device", "uninstall/x"), 1, "7"); code != mqtt.Success {
		t.Fatalf("PUBACK %v", code)
	}
	secrets := secretsOf(t, r.namespace, r.deps())

	if err := r.uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	kept := 0
	until(t, 2*time.Minute, "nothing but volumes and Secrets to be left", func() (bool, string) {
		kept = 0
		var left []string
		for _, namespace := range []string{r.namespace, r.deps()} {
			for _, name := range objects(t, namespace) {
				kind, _, _ := strings.Cut(name, "/")
				switch {
				case kind == "secret" || kind == "persistentvolumeclaim":
					kept++
				case strings.HasPrefix(name, "job/backup-"), strings.HasPrefix(name, "job/restore-"), strings.HasPrefix(name, "pod/backup-"), strings.HasPrefix(name, "pod/restore-"):
					// Made by a row, not by the release.
				default:
					left = append(left, name)
				}
			}
		}
		return len(left) == 0, fmt.Sprintf("%q", left)
	})
	row(t, "helm uninstall: volumes, Secrets and NATS's namespace are kept, nothing else", "-", fmt.Sprintf("%d objects kept", kept))

	began := time.Now()
	if err := r.apply(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	s.address = ""
	s.whole(t)
	if changed := different(secrets, secretsOf(t, r.namespace, r.deps())); len(changed) > 0 {
		t.Errorf("the installation after an uninstall changed the secrets %q", changed)
	}
	row(t, "helm install again: ready, with the secrets it had", "no secret changes", time.Since(began))
	b = s.service(t)
	c = b.Dial(t)
	if ack := c.Connect(session); !ack.SessionPresent {
		t.Error("the persistent session is gone")
	} else if p := c.Receive(); string(p.Payload) != "7" {
		t.Errorf("the session got %q, want what was published while it was away", p.Payload)
	}
	if rows := b.History(t, "device", "uninstall/x"); len(rows) != 1 {
		t.Errorf("history has %d values, want 1", len(rows))
	}
	row(t, "helm install again: sessions, what they are owed, and history", "kept", "all there")
}
