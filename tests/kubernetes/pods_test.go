package kubernetes_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
)

func TestADeviceConnectsThroughANodePortAndTheLoadBalancer(t *testing.T) {
	s := start(t)
	port, err := s.release.nodePort(t.Context(), "mqtt")
	if err != nil {
		t.Fatal(err)
	}
	ways := map[string]string{"a node's port": port}
	if address, err := s.release.balanced(t.Context(), "mqtt"); err == nil {
		ways["the load balancer's address"] = address
	} else {
		t.Logf("this cluster gives no load balancer: %v", err)
	}
	maps.DeleteFunc(ways, func(way, address string) bool {
		away := !cluster.answersSoon(t, address)
		if away {
			t.Logf("%s (%s) does not answer this machine", way, address)
		}
		return away
	})
	if len(ways) == 0 {
		t.Skip("this machine reaches neither the cluster's nodes nor its load balancers")
	}
	n := 0
	for way, address := range ways {
		b := s.service(t)
		b.TCP = address
		began := time.Now()
		subscriber := b.Client(t, "device", fmt.Sprintf("way-subscriber-%d", n))
		row(t, "a device connects through "+way, "signed in", time.Since(began))
		if code := subscriber.Subscribe(harness.Data("way/#"), 1); code != mqtt.GrantedQoS1 {
			t.Fatalf("SUBACK %v", code)
		}
		publisher := b.Client(t, "device", fmt.Sprintf("way-publisher-%d", n))
		if code := publisher.Publish(harness.Inbox("device", "way/x"), 1, fmt.Sprint(n)); code != mqtt.Success {
			t.Fatalf("PUBACK %v through %s", code, way)
		}
		if p := subscriber.Receive(); string(p.Payload) != fmt.Sprint(n) {
			t.Errorf("through %s came %q", way, p.Payload)
		}
		n++
	}
}

func TestRowPodKilled(t *testing.T) {
	cluster.needLab(t)
	s := start(t)
	l := s.load(t)
	for i := range 2 {
		before := s.pod(t, i)
		cluster.lab(t, "kill", s.release.namespace+"/"+s.podName(i), "broker")
		killed := time.Now()
		row(t, fmt.Sprintf("pod killed (kill -9 of %s): everything flows, from the kill", s.podName(i)), "2 s after the reconnect", l.flows(t, killed))
		s.ready(t, s.release.namespace, s.podName(i), before)
		row(t, fmt.Sprintf("pod killed: %s is ready again, from the kill", s.podName(i)), "-", time.Since(killed))
		s.whole(t)
	}
	row(t, "pod killed: in all", "nothing acknowledged lost", l.finish(t))
}

func TestRowPodDeleted(t *testing.T) {
	s := start(t)
	l := s.load(t)
	for i := range 2 {
		before := s.pod(t, i)
		if err := cluster.CoreV1().Pods(s.release.namespace).Delete(t.Context(), s.podName(i), meta.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		deleted := time.Now()
		s.ready(t, s.release.namespace, s.podName(i), before)
		row(t, fmt.Sprintf("pod deleted: %s is ready again, from the deletion", s.podName(i)), "-", time.Since(deleted))
		row(t, "pod deleted: everything flows, once it is ready", "-", l.flows(t, time.Now()))
		s.whole(t)
	}
	row(t, "pod deleted: in all", "no false will, nothing lost", l.finish(t))
}

// TestRowADeviceThatStaysAway: of two devices whose replica is killed, the one that
// comes back has no will sent, the one that stays away has its will sent once.
func TestRowADeviceThatStaysAway(t *testing.T) {
	cluster.needLab(t)
	s := start(t)
	victim, other := s.replica(t, 0), s.replica(t, 1)
	watcher := other.Client(t, "device", "stay-watcher")
	watcher.Subscribe(harness.Data("stay/#"), 1)
	connect := func(b *harness.Broker, who string) mqtt.Connect {
		c := b.ConnectAs("device", "stay-"+who)
		c.CleanStart, c.SessionExpiry = false, 600
		c.Will = &mqtt.Will{QoS: 1, Topic: harness.Inbox("device", "stay/"+who), Payload: []byte(`"gone"`)}
		return c
	}
	for _, who := range []string{"back", "away"} {
		victim.Dial(t).Connect(connect(victim, who))
	}
	before := s.pod(t, 0)
	cluster.lab(t, "kill", s.release.namespace+"/"+s.podName(0), "broker")
	killed := time.Now()
	if ack := other.Dial(t).Connect(connect(other, "back")); !ack.SessionPresent {
		t.Error("the device that came back found no session")
	}
	row(t, "pod killed: a device resumes on the other replica, from the kill", "at once", time.Since(killed))
	packet, err := watcher.Next(grace + 2*ttl + generous)
	if err != nil {
		t.Fatalf("no will in %v: %v", time.Since(killed), err)
	}
	var will mqtt.Publish
	if err := will.Decode(mqtt.V5, packet.Header, packet.Body); err != nil {
		t.Fatal(err)
	}
	took := time.Since(killed)
	row(t, "pod killed: the will of a device that stays away, from the kill", fmt.Sprintf("once, after the grace of %v", grace), took)
	if string(will.Topic) != harness.Data("stay/away") {
		t.Errorf("the will on %s was sent: its device is back", will.Topic)
	}
	if took < grace {
		t.Errorf("the will was sent %v after the kill, within the grace of %v", took, grace)
	}
	watcher.Send(mqtt.AppendAck(nil, mqtt.V5, mqtt.PUBACK, will.PacketID, 0))
	s.ready(t, s.release.namespace, s.podName(0), before)
	watcher.ExpectNothing()
}
