package upgrading_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tools/launch"
	"maestrohub.io/uns/tools/localcluster/deployment"
)

// shown is the certificate that a replica's mesh listener shows.
func (c *cluster) shown(t *testing.T, i int) *x509.Certificate {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.Replicas[i].Dir, "config.yaml"))
	must(t, err)
	var loose map[string]any
	must(t, yaml.Unmarshal(text, &loose))
	mesh := loose["modules"].(map[string]any)["uns"].(map[string]any)["brokerMesh"].(map[string]any)
	var leaf *x509.Certificate
	raw, err := net.Dial("tcp", mesh["listen"].(string))
	must(t, err)
	defer raw.Close()
	conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"maestrohub-mesh"}, VerifyConnection: func(s tls.ConnectionState) error {
		leaf = s.PeerCertificates[0]
		return nil
	}})
	_ = conn.Handshake() // this end shows no certificate and is refused
	if leaf == nil {
		t.Fatalf("%s shows no certificate", c.Replicas[i].ID)
	}
	return leaf
}

// The mesh's certificate is renewed, and then its authority replaced in stages, while a device publishes and another's
// session, on the other replica, subscribes. Nothing is restarted; each value arrives once, in order, and the links are
// made with the new certificates.
func TestTheMeshFollowsItsFilesWhileDevicesPublish(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	first, err := launch.NewAuthority("mesh authority")
	must(t, err)
	next, err := launch.NewAuthority("the next mesh authority")
	must(t, err)
	must(t, first.IssueTo(dir, "mesh"))
	c := start(t, deployment.Options{Settings: map[string]any{"brokerMesh.certFile": file("tls.crt"), "brokerMesh.keyFile": file("tls.key"), "brokerMesh.caFile": file("ca.crt")}})
	s, _ := c.resume(t, 0, "subscriber")
	if code := s.Subscribe(harness.Data("line/#"), 1); code >= 0x80 {
		t.Fatalf("SUBACK %v", code)
	}
	live := c.brokers[0].Client(t, "device", "live")
	if code := live.Subscribe(harness.Data("line/#"), 1); code >= 0x80 {
		t.Fatalf("SUBACK %v", code)
	}
	p := c.brokers[1].Client(t, "device", "publisher")
	sent := 0
	exchange := func() {
		t.Helper()
		for range 10 {
			sent++
			publish(t, p, "line/1", fmt.Sprint(sent))
			expect(t, s, fmt.Sprint(sent))
			expect(t, live, fmt.Sprint(sent))
		}
	}
	exchange()
	// bundle writes who is trusted; issue writes a certificate too.
	bundle := func(all ...*launch.Authority) {
		t.Helper()
		var text []byte
		for _, a := range all {
			text = append(text, a.PEM...)
		}
		must(t, os.WriteFile(file("ca.crt"), text, 0o600))
	}
	reloads := 0
	for _, step := range []struct {
		what string
		do   func()
	}{
		{"a renewed certificate", func() { must(t, first.IssueTo(dir, "mesh")) }},
		{"introduce: the next authority is trusted too", func() { bundle(first, next) }},
		{"switch: the next authority signs", func() { must(t, next.IssueTo(dir, "mesh")); bundle(next, first) }},
		{"none: the first authority is forgotten", func() { bundle(next) }},
	} {
		step.do()
		exchange()
		for i, r := range c.Replicas {
			harness.Eventually(t, step.what+" is taken by "+r.ID, func() (bool, string) {
				n := strings.Count(r.Output(), "mesh: certificate reloaded")
				return n > reloads, r.Output()
			})
			harness.Eventually(t, r.ID+" shows the certificate of the file", func() (bool, string) {
				shown := c.shown(t, i)
				pair, err := tls.LoadX509KeyPair(file("tls.crt"), file("tls.key"))
				must(t, err)
				return shown.Equal(pair.Leaf), shown.Subject.String()
			})
		}
		reloads = min(strings.Count(c.Replicas[0].Output(), "mesh: certificate reloaded"), strings.Count(c.Replicas[1].Output(), "mesh: certificate reloaded"))
		// Links that stand are not touched; the next one is made with what is there now.
		c.Mesh().Cut()
		c.Mesh().Heal()
		harness.Eventually(t, "the replicas link again", func() (bool, string) {
			n := c.brokers[0].Metric(t, "maestrohub_uns_broker_cluster_mesh_links_up")
			return n == 1, fmt.Sprint(n)
		})
		exchange()
	}
	for _, r := range c.Replicas {
		if strings.Contains(r.Output(), "broker cluster: fenced") {
			t.Errorf("%s fenced", r.ID)
		}
	}
}
