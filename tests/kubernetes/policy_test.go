package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestNetworkPolicyLetsExactlyTheRightPeersIn tries every door of the release from
// pods of every kind: those the policies are made for, and those that have no
// business there.
func TestNetworkPolicyLetsExactlyTheRightPeersIn(t *testing.T) {
	s := start(t)
	r := s.release
	const elsewhere = "e2e-elsewhere"
	if err := cluster.makeNamespace(t.Context(), elsewhere); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := cluster.deleteNamespaces(ctx, elsewhere); err != nil {
			t.Error(err)
		}
	})
	visitors := map[string]toolbox{
		"a device's pod":              startToolbox(t, r.namespace, "e2e-device", map[string]string{"role": "device"}),
		"a stranger in the namespace": startToolbox(t, r.namespace, "e2e-stranger", nil),
		"a device's label elsewhere":  startToolbox(t, elsewhere, "e2e-device", map[string]string{"role": "device"}),
		"Prometheus, elsewhere":       startToolbox(t, elsewhere, "e2e-prometheus", map[string]string{"app.kubernetes.io/name": "prometheus"}),
		"a stranger beside NATS":      startToolbox(t, r.deps(), "e2e-stranger", nil),
		"a broker's labels elsewhere": startToolbox(t, elsewhere, "e2e-uns", map[string]string{"app.kubernetes.io/name": "uns", "app.kubernetes.io/instance": r.name}),
	}
	pod := s.pod(t, 0).Status.PodIP
	nats := s.natsAddresses(t)[0]
	doors := []struct {
		what, address string
		mayPass       []string // who may pass
	}{
		{"MQTT of a replica", net.JoinHostPort(pod, "1883"), []string{"a device's pod"}},
		{"HTTP of a replica", net.JoinHostPort(pod, "8080"), []string{"Prometheus, elsewhere"}},
		{"the mesh of a replica", net.JoinHostPort(pod, "7884"), nil},
		{"NATS", net.JoinHostPort(nats, "4222"), nil},
		{"the routes of NATS", net.JoinHostPort(nats, "6222"), nil},
		{"the monitor of NATS", net.JoinHostPort(nats, "8222"), []string{"Prometheus, elsewhere"}},
	}
	// A new pod's allowance takes a moment to reach every node; a refusal does not turn
	// into one.
	var all sync.WaitGroup
	var tried, passed atomic.Int64
	for who, from := range visitors {
		all.Go(func() {
			for _, door := range doors {
				may := slices.Contains(door.mayPass, who)
				began := time.Now()
				out, err := from.run(t.Context(), "dial", door.address)
				for may && err != nil && time.Since(began) < generous {
					out, err = from.run(t.Context(), "dial", door.address)
				}
				switch {
				case may && err != nil:
					t.Errorf("%s does not reach %s: %v", who, door.what, err)
				case may:
					passed.Add(1)
				case err == nil:
					t.Errorf("%s reaches %s: %s", who, door.what, strings.TrimSpace(out))
				case !refused(err):
					t.Errorf("%s could not try %s: %v", who, door.what, err)
				}
				tried.Add(1)
			}
		})
	}
	all.Wait()
	row(t, "network policies: doors tried from pods that may and may not pass", "exactly the right peers", fmt.Sprintf("%d tried, %d let in", tried.Load(), passed.Load()))
}

// refused reports whether the toolbox was kept out, as against not having run.
func refused(err error) bool {
	text := err.Error()
	return strings.Contains(text, "connection refused") || strings.Contains(text, "i/o timeout") || strings.Contains(text, "no route to host") ||
		strings.Contains(text, "unreachable") || errors.Is(err, context.DeadlineExceeded)
}
