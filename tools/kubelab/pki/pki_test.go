package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func made(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "pki")
	err := Make(dir, Cluster{Server: "https://127.0.0.1:6443", Hosts: []string{"127.0.0.1", "kubernetes.default.svc"},
		Nodes: map[string]string{"node1": "127.0.0.1", "node2": "127.0.0.2"}})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func authorityOf(t *testing.T, dir, name string) *x509.CertPool {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, name+".crt"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content) {
		t.Fatalf("%s.crt holds no certificate", name)
	}
	return pool
}

func load(t *testing.T, dir, name string) tls.Certificate {
	t.Helper()
	c, err := tls.LoadX509KeyPair(filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// handshake has a client with one certificate meet a server with another.
func handshake(t *testing.T, dir, server, serverName, client string) error {
	t.Helper()
	roots := authorityOf(t, dir, Authority)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{load(t, dir, server)}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	served := make(chan error, 1)
	go func() {
		c, err := listener.Accept()
		if err == nil {
			err = c.(*tls.Conn).Handshake()
			c.Close()
		}
		served <- err
	}()
	c, err := tls.Dial("tcp", listener.Addr().String(), &tls.Config{
		RootCAs: roots, ServerName: serverName, Certificates: []tls.Certificate{load(t, dir, client)}})
	if err != nil {
		return err
	}
	defer c.Close()
	return <-served
}

func TestPartsOfTheClusterTrustEachOther(t *testing.T) {
	dir := made(t)
	for _, c := range []struct{ server, name, client string }{
		{APIServer, "127.0.0.1", Admin},
		{APIServer, "kubernetes.default.svc", Node("node1")},
		{Etcd, "127.0.0.1", EtcdClient},
		{KubeletServer("node2"), "127.0.0.2", APIServerKubelet},
	} {
		if err := handshake(t, dir, c.server, c.name, c.client); err != nil {
			t.Errorf("%s reached as %s by %s: %v", c.server, c.name, c.client, err)
		}
	}
}

func TestACertificateServesNoOtherName(t *testing.T) {
	dir := made(t)
	if err := handshake(t, dir, KubeletServer("node1"), "127.0.0.2", APIServerKubelet); err == nil {
		t.Error("node1's kubelet is taken for node2's")
	}
	if err := handshake(t, dir, APIServer, "127.0.0.1", FrontProxy); err == nil {
		t.Error("a certificate of the front proxy's authority signs in to the cluster")
	}
	if err := handshake(t, dir, Admin, "127.0.0.1", Admin); err == nil {
		t.Error("a client's certificate serves")
	}
}

func TestANodeIsTheUserTheNodeAuthorizerKnows(t *testing.T) {
	dir := made(t)
	content, err := os.ReadFile(filepath.Join(dir, Node("node1")+".crt"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(content)
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if c.Subject.CommonName != "system:node:node1" || len(c.Subject.Organization) != 1 || c.Subject.Organization[0] != "system:nodes" {
		t.Errorf("the node signs in as %v", c.Subject)
	}
}

func TestOnlyTheOwnerReadsKeys(t *testing.T) {
	dir := made(t)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", e.Name(), info.Mode())
		}
	}
	config, err := os.ReadFile(filepath.Join(dir, Kubeconfig(Admin)))
	if err != nil || !strings.Contains(string(config), "server: \"https://127.0.0.1:6443\"") {
		t.Errorf("the admin's kubeconfig (%v):\n%s", err, config)
	}
}
