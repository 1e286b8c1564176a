package kubernetes_test

import (
	"fmt"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
)

// job makes a Job of one of the chart's CronJobs and waits for its end.
func (s *site) job(t *testing.T, from, name string) time.Duration {
	t.Helper()
	began := time.Now()
	name = fmt.Sprintf("%s-%d", name, began.Unix())
	cluster.mustRun(t, "kubectl", "-n", s.release.namespace, "create", "job", name, "--from=cronjob/"+from)
	until(t, 3*time.Minute, "job "+name+" to be done", func() (bool, string) {
		job, err := cluster.BatchV1().Jobs(s.release.namespace).Get(t.Context(), name, meta.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		if job.Status.Failed > 0 {
			logs, _ := cluster.command(t.Context(), "kubectl", "-n", s.release.namespace, "logs", "job/"+name)
			t.Fatalf("job %s failed; it said:\n%s", name, logs)
		}
		return job.Status.Succeeded > 0, fmt.Sprintf("%+v", job.Status)
	})
	return time.Since(began)
}

// scale sets the size of a StatefulSet and waits until its pods are gone, or ready.
func (s *site) scale(t *testing.T, namespace, name, component string, replicas int) {
	t.Helper()
	cluster.mustRun(t, "kubectl", "-n", namespace, "scale", "statefulset/"+name, fmt.Sprintf("--replicas=%d", replicas))
	until(t, 4*time.Minute, fmt.Sprintf("%s to have %d ready pods", name, replicas), func() (bool, string) {
		pods, err := cluster.pods(t.Context(), namespace, component)
		if err != nil {
			return false, err.Error()
		}
		ready := 0
		for i := range pods {
			if isReady(&pods[i]) {
				ready++
			}
		}
		return len(pods) == replicas && ready == replicas, fmt.Sprintf("%d pods, %d ready", len(pods), ready)
	})
}

// TestBackupWipeRestore: everything NATS held is lost, its volumes with it, and what
// the backup had comes back: sessions with what they are owed, retained messages.
func TestBackupWipeRestore(t *testing.T) {
	s := start(t)
	r := s.release
	b := s.service(t)
	session := b.ConnectAs("device", fmt.Sprintf("backup-session-%d", time.Now().Unix()))
	session.CleanStart, session.SessionExpiry = false, 3600
	c := b.Dial(t)
	c.Connect(session)
	if code := c.Subscribe(harness.Data("backup/#"), 1); code != mqtt.GrantedQoS1 {
		t.Fatalf("SUBACK %v", code)
	}
	c.Send((&mqtt.Disconnect{}).Append(nil, mqtt.V5))
	c.ExpectClosed()
	publisher := b.Client(t, "device", "backup-publisher")
	const count = 20
	for n := range count {
		if code := publisher.Publish(harness.Inbox("device", "backup/x"), 1, fmt.Sprint(n)); code != mqtt.Success {
			t.Fatalf("PUBACK %v", code)
		}
	}
	if code := publisher.Publish(harness.Inbox("device", "retained/backup"), 1, "11"); code != mqtt.Success {
		t.Fatalf("PUBACK %v", code)
	}
	row(t, "backup: taken while everything serves", "online", s.job(t, r.uns()+"-backup", "backup"))

	wiped := time.Now()
	s.scale(t, r.namespace, r.uns(), "uns", 0)
	s.scale(t, r.deps(), r.nats(), "nats", 0)
	cluster.mustRun(t, "kubectl", "-n", r.deps(), "delete", "persistentvolumeclaims", "--selector", "app.kubernetes.io/name=nats", "--wait", "--timeout=1m")
	s.scale(t, r.deps(), r.nats(), "nats", 3)
	row(t, "NATS wiped: its servers are back, empty", "-", time.Since(wiped))
	row(t, "restore", "replicas stopped", s.job(t, r.uns()+"-restore", "restore"))
	began := time.Now()
	s.scale(t, r.namespace, r.uns(), "uns", 2)
	s.whole(t)
	row(t, "restored: every replica serves", "-", time.Since(began))

	b = s.service(t)
	c = b.Dial(t)
	if ack := c.Connect(session); !ack.SessionPresent {
		t.Fatal("the persistent session is gone")
	}
	for n := range count {
		if p := c.Receive(); string(p.Payload) != fmt.Sprint(n) {
			t.Fatalf("the session got %q, want %d: what it was owed, in order", p.Payload, n)
		}
	}
	fresh := b.Client(t, "device", "backup-fresh")
	fresh.Send((&mqtt.Subscribe{PacketID: 1, Filters: []mqtt.Subscription{{Filter: harness.Data("retained/backup"), QoS: 1}}}).Append(nil, mqtt.V5))
	fresh.Expect(mqtt.SUBACK)
	if p := fresh.Receive(); string(p.Payload) != "11" || !p.Retain {
		t.Errorf("the retained message is %q, retain %v", p.Payload, p.Retain)
	}
	row(t, "restored: a session resumes with what it was owed; retained messages", "from the backup", "all there")
}
