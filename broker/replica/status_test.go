package replica_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"maestrohub.io/uns/broker/api"
	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tests/mqtttest"
	"maestrohub.io/uns/tests/site"
)

// ask gets a path, one of the API over the operator's socket: no credential has to be
// checked, which the stores would be asked for.
func ask(t *testing.T, b *mqtttest.Broker, path string) (int, string) {
	t.Helper()
	socket := filepath.Join(b.Config.DataDir, "admin", "api.sock")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		if strings.HasPrefix(path, "/api/") {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}
		return new(net.Dialer).DialContext(ctx, "tcp", b.Address("http"))
	}}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://replica"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// clusterStatus is broker.cluster of a replica's status, and the names of what it says.
func clusterStatus(t *testing.T, b *mqtttest.Broker) (c api.ClusterStatus, says map[string]any) {
	t.Helper()
	var answer struct {
		Broker struct{ Cluster json.RawMessage }
	}
	status, body := ask(t, b, "/api/v1/system/uns/settings/status")
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK {
		t.Fatalf("status: %d %s: %v", status, body, err)
	}
	for _, into := range []any{&c, &says} {
		if err := json.Unmarshal(answer.Broker.Cluster, into); err != nil {
			t.Fatal(err)
		}
	}
	return c, says
}

// metricOf is a metric without labels, as a scrape of the replica has it.
func metricOf(t *testing.T, b *mqtttest.Broker, name string) (v float64) {
	t.Helper()
	_, body := ask(t, b, "/metrics")
	for line := range strings.Lines(body) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			if _, err := fmt.Sscan(rest, &v); err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// trouble is what the status has only when something is wrong.
var trouble = []string{"storeUnreachable", "fenced", "duplicateReplicaId", "belowFormatFloor", "sessionLogReadsHeld"}

func TestTheStatusSaysWhatIsWrongWithTheCluster(t *testing.T) {
	s := site.Start(t)
	a := s.Replica(t, "a", nil)
	b := s.Replica(t, "b", nil)
	harness.Eventually(t, "two replicas, linked", func() (bool, string) {
		c, says := clusterStatus(t, a)
		whole := c.Replica == "a" && c.Mesh != "off" && c.MemberCount == 2 && strings.Join(c.Members, " ") == "a b" && c.LinksUp == 1
		for _, name := range trouble {
			whole = whole && says[name] == nil
		}
		return whole, fmt.Sprint(says)
	})
	for name, want := range map[string]float64{"members": 2, "mesh_links_up": 1, "mesh_links_expected": 1, "members_gone_total": 0, "format_unreadable_total": metricOf(t, b, "maestrohub_uns_broker_cluster_format_unreadable_total")} {
		if got := metricOf(t, a, "maestrohub_uns_broker_cluster_"+name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}

	t.Run("another process runs under the id", func(t *testing.T) {
		second := s.Begin(t, "a", nil)
		harness.Eventually(t, "the second to know", func() (bool, string) {
			c, says := clusterStatus(t, second)
			status, body := ask(t, second, "/health/ready")
			return c.DuplicateReplicaID && !c.Fenced && status == http.StatusServiceUnavailable && strings.Contains(body, "broker-cluster-store: duplicateReplicaId:"), fmt.Sprint(says, body)
		})
		if c, says := clusterStatus(t, a); c.DuplicateReplicaID || c.Fenced {
			t.Errorf("the first says %v", says)
		}
	})

	for _, server := range s.Servers {
		if err := server.Pause(); err != nil {
			t.Fatal(err)
		}
	}
	resume := func() {
		for _, server := range s.Servers {
			_ = server.Resume()
		}
	}
	t.Cleanup(resume)
	for _, replica := range []*mqtttest.Broker{a, b} {
		harness.Eventually(t, "a fence, and the stores' silence", func() (bool, string) {
			c, says := clusterStatus(t, replica)
			return c.Fenced && c.StoreUnreachable != "" && c.LinksUp == 0 && !c.DuplicateReplicaID && !c.BelowFormatFloor, fmt.Sprint(says)
		})
		if up, expected := metricOf(t, replica, "maestrohub_uns_broker_cluster_mesh_links_up"), metricOf(t, replica, "maestrohub_uns_broker_cluster_mesh_links_expected"); up != 0 || expected != 0 {
			t.Errorf("a fenced replica has %v of %v links", up, expected)
		}
	}
	resume()
	for _, replica := range []*mqtttest.Broker{a, b} {
		harness.Eventually(t, "all to be well again", func() (bool, string) {
			c, says := clusterStatus(t, replica)
			whole := c.LinksUp == 1
			for _, name := range trouble {
				whole = whole && says[name] == nil
			}
			return whole, fmt.Sprint(says)
		})
	}

	t.Run("below the format floor", func(t *testing.T) {
		floors := s.Bucket(t, state.ClusterFloor)
		record, err := floors.Get(t.Context(), cluster.FloorKey)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := floors.Update(t.Context(), cluster.FloorKey, cluster.Floor{Format: cluster.Newest + 1}.Encode(), record.Revision); err != nil {
			t.Fatal(err)
		}
		late := s.Begin(t, "c", nil)
		harness.Eventually(t, "the late one to know, and to count", func() (bool, string) {
			c, says := clusterStatus(t, late)
			_, body := ask(t, late, "/health/ready")
			return c.BelowFormatFloor && strings.Contains(body, "broker-cluster-store: belowFormatFloor:") &&
				metricOf(t, late, "maestrohub_uns_broker_cluster_format_unreadable_total") > 0, fmt.Sprint(says, body)
		})
	})
}
