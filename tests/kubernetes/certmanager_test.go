package kubernetes_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
)

// startCertManager runs cert-manager's controllers against the cluster until the test
// ends.
func startCertManager(t *testing.T) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "certmanager")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./certmanager")
	build.Dir = "addons"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build cert-manager's controllers: %v\n%s", err, out)
	}
	var said bytes.Buffer
	run := exec.Command(program)
	run.Env = append(os.Environ(), "KUBECONFIG="+*kubeconfig)
	run.Stdout, run.Stderr = &said, &said
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = run.Process.Signal(syscall.SIGTERM)
		err := run.Wait()
		if err != nil || t.Failed() {
			t.Errorf("cert-manager's controllers ended: %v; they said:\n%s", err, said.Bytes())
		}
	})
}

// certificate is what a Secret has in tls.crt, and the pool of its ca.crt.
func certificate(t *testing.T, namespace, name string) (*x509.Certificate, *x509.CertPool) {
	t.Helper()
	secret, err := cluster.CoreV1().Secrets(namespace).Get(t.Context(), name, meta.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(secret.Data[core.TLSCertKey])
	if block == nil {
		t.Fatalf("Secret %s has no certificate", name)
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(secret.Data["ca.crt"])
	return parsed, pool
}

// renew has cert-manager make a certificate anew before its time, as `cmctl renew` does,
// and returns the new one's serial.
func renew(t *testing.T, namespace, name string) *big.Int {
	t.Helper()
	before, _ := certificate(t, namespace, name)
	issuing := fmt.Sprintf(`{"status":{"conditions":[{"type":"Issuing","status":"True","reason":"ManuallyTriggered","message":"by a test","lastTransitionTime":%q}]}}`,
		time.Now().UTC().Format(time.RFC3339))
	cluster.mustRun(t, "kubectl", "-n", namespace, "patch", "certificate", name, "--subresource=status", "--type=merge", "--patch", issuing)
	serial := before.SerialNumber
	until(t, 2*time.Minute, "cert-manager to renew "+name, func() (bool, string) {
		now, _ := certificate(t, namespace, name)
		serial = now.SerialNumber
		return serial.Cmp(before.SerialNumber) != 0, fmt.Sprintf("serial %v", serial)
	})
	return serial
}

// shows waits until a handshake at an address shows a certificate. NATS says who it is
// before the handshake.
func shows(t *testing.T, who, address string, greets bool, want *big.Int) time.Duration {
	t.Helper()
	return until(t, 3*time.Minute, who+" to show the renewed certificate", func() (bool, string) {
		plain, err := net.DialTimeout("tcp", address, 5*time.Second)
		if err != nil {
			return false, err.Error()
		}
		defer plain.Close()
		if err := plain.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			return false, err.Error()
		}
		if greets {
			if line, err := bufio.NewReader(plain).ReadString('\n'); err != nil || !strings.HasPrefix(line, "INFO ") {
				return false, fmt.Sprintf("it said %q, %v", line, err)
			}
		}
		c := tls.Client(plain, &tls.Config{InsecureSkipVerify: true}) // which one is asked, not whose
		if err := c.HandshakeContext(t.Context()); err != nil {
			return false, err.Error()
		}
		shown := c.ConnectionState().PeerCertificates[0].SerialNumber
		return shown.Cmp(want) == 0, fmt.Sprintf("serial %v, want %v", shown, want)
	})
}

// TestCertManagersCertificates: cert-manager's own controllers make every certificate of
// a release, renew each, and make a lost one anew; the release serves with them, and a
// device that is connected notices nothing.
func TestCertManagersCertificates(t *testing.T) {
	if !*manager {
		t.Skip("-certmanager has it run: its controllers take minutes to compile")
	}
	installations.enter(t)
	// Where ClusterIssuers have their authorities.
	const authorities = "cert-manager"
	if _, err := cluster.CoreV1().Namespaces().Get(t.Context(), authorities, meta.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Skipf("namespace %s is there (%v): this cluster has a cert-manager of its own", authorities, err)
	}
	define(t, certManager)
	startCertManager(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_, err := cluster.command(ctx, "kubectl", "delete", "clusterissuer", "e2e-self", "e2e-plant", "--ignore-not-found")
		if err != nil {
			t.Error(err)
		}
		if err := cluster.deleteNamespaces(ctx, authorities); err != nil {
			t.Error(err)
		}
	})
	if err := cluster.makeNamespace(t.Context(), authorities); err != nil {
		t.Fatal(err)
	}
	cluster.mustRun(t, "kubectl", "apply", "-f", "testdata/issuers.yaml")
	cluster.mustRun(t, "kubectl", "wait", "--for=condition=Ready", "clusterissuer/e2e-plant", "--timeout=2m")

	const device = "mqtt-tls"
	began := time.Now()
	r := install(t, &release{name: "managed", namespace: "e2e-managed", files: []string{"values-local-lab.yaml"}, values: merge(small, map[string]any{
		"uns": map[string]any{"mqtt": map[string]any{"embedded": map[string]any{"tls": map[string]any{"secretName": device}}}},
		"certManager": map[string]any{"enabled": true, "issuerRef": map[string]any{"name": "e2e-plant"},
			"mqtt": map[string]any{"enabled": true, "dnsNames": []any{"mqtt.e2e.test"}}},
	})})
	row(t, "helm install with certManager.enabled: ready", "certificates from cert-manager", time.Since(began))
	row(t, "helm test on it", "a device's way, once", r.helmTest(t))
	for _, c := range []struct{ namespace, secret, name string }{
		{r.namespace, device, "mqtt.e2e.test"},
		{r.namespace, device, r.uns() + "-mqtt." + r.namespace + ".svc"},
		{r.namespace, r.uns() + "-mesh-tls", r.uns() + "-0." + r.uns() + "-headless." + r.namespace + ".svc"},
		{r.deps(), "maestrohub-nats-server-tls", r.nats() + "." + r.deps() + ".svc"},
		{r.namespace, "maestrohub-nats-client-tls", ""},
	} {
		made, pool := certificate(t, c.namespace, c.secret)
		if _, err := made.Verify(x509.VerifyOptions{DNSName: c.name, Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
			t.Errorf("the certificate in %s: %v", c.secret, err)
		}
	}
	cluster.mustRun(t, "kubectl", "-n", r.namespace, "wait", "--for=condition=Ready", "certificate", "--all", "--timeout=1m")
	cluster.mustRun(t, "kubectl", "-n", r.deps(), "wait", "--for=condition=Ready", "certificate", "--all", "--timeout=1m")

	// An upgrade leaves them alone; the loss of one has it made anew.
	before := secretsOf(t, r.namespace, r.deps())
	if err := r.apply(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if changed := different(before, secretsOf(t, r.namespace, r.deps())); len(changed) > 0 {
		t.Errorf("an upgrade without a change changed %q", changed)
	}

	// Renewed, each reaches the next handshake.
	o, b := newOperator(t, r), r.reach(t)
	open := b.Client(t, "device", "managed-open")
	publish := func() {
		t.Helper()
		if code := open.Publish(harness.Inbox("device", "managed/x"), 1, "1"); code != mqtt.Success {
			t.Errorf("PUBACK %v", code)
		}
	}
	publish()
	replicas, err := cluster.pods(t.Context(), r.namespace, "uns")
	if err != nil || len(replicas) != 2 {
		t.Fatalf("%d replicas, %v", len(replicas), err)
	}
	servers, err := cluster.pods(t.Context(), r.deps(), "nats")
	if err != nil || len(servers) != 3 {
		t.Fatalf("%d servers of NATS, %v", len(servers), err)
	}
	for _, c := range []struct {
		namespace, secret string
		at                []core.Pod
		port              int
		greets            bool
		said              string // of what only calls others
	}{
		{r.namespace, device, replicas, 8883, false, ""},
		{r.namespace, r.uns() + "-mesh-tls", replicas, 7884, false, ""},
		{r.deps(), "maestrohub-nats-server-tls", servers, 4222, true, ""},
		{r.namespace, "maestrohub-nats-client-tls", nil, 0, false, "NATS client certificate reloaded"},
	} {
		began := time.Now()
		serial := renew(t, c.namespace, c.secret)
		for i := range c.at {
			shows(t, c.at[i].Name, cluster.toPod(t, &c.at[i], c.port), c.greets, serial)
		}
		if c.said != "" {
			o.said(t, r.namespace, "uns", "broker", c.said, 1)
		}
		publish()
		row(t, "cert-manager: renewed "+c.secret+" is served", "the next handshake, no restart", time.Since(began))
	}
	open.ExpectNothing()
	for _, p := range slices.Concat(replicas, servers) {
		now, err := cluster.CoreV1().Pods(p.Namespace).Get(t.Context(), p.Name, meta.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if now.UID != p.UID || restarts(now) != restarts(&p) {
			t.Errorf("%s was restarted for a certificate", p.Name)
		}
	}

	first, _ := certificate(t, r.namespace, device)
	cluster.mustRun(t, "kubectl", "-n", r.namespace, "delete", "secret", device)
	renewed := until(t, 2*time.Minute, "cert-manager to make the certificate anew", func() (bool, string) {
		if _, err := cluster.CoreV1().Secrets(r.namespace).Get(t.Context(), device, meta.GetOptions{}); err != nil {
			return false, err.Error()
		}
		again, _ := certificate(t, r.namespace, device)
		return again.SerialNumber.Cmp(first.SerialNumber) != 0, fmt.Sprintf("serial %v", again.SerialNumber)
	})
	row(t, "cert-manager: a lost certificate is made anew", "by the controller, no upgrade", renewed)
}
