package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
)

// Cluster says what to make certificates for.
type Cluster struct {
	Server string // URL of the API server, for the kubeconfigs
	// Hosts are the names and addresses the API server is reached by, those of the
	// Service in the cluster included.
	Hosts []string
	// Nodes are the nodes' addresses by name.
	Nodes map[string]string
}

// Names of what Make writes. A certificate NAME is NAME.crt and NAME.key.
const (
	Authority        = "ca"
	FrontAuthority   = "front-ca"
	APIServer        = "apiserver"         // what the API server serves with
	APIServerKubelet = "apiserver-kubelet" // what it signs in to kubelets with
	FrontProxy       = "front-proxy"
	Etcd             = "etcd"        // what etcd serves with
	EtcdClient       = "etcd-client" // what the API server signs in to etcd with
	AccountKey       = "account.key" // signs service account tokens
	AccountPublic    = "account.pub"
)

// Users who have a kubeconfig, <name>.kubeconfig.
const (
	Admin             = "admin"
	ControllerManager = "controller-manager"
	Scheduler         = "scheduler"
	Proxy             = "proxy"
)

// Node is the user a node's kubelet signs in as, and the name of its files;
// KubeletServer the certificate it serves with.
func Node(name string) string          { return "kubelet-" + name }
func KubeletServer(name string) string { return "kubelet-server-" + name }

// Kubeconfig is the name of a user's kubeconfig file.
func Kubeconfig(user string) string { return user + ".kubeconfig" }

// Make writes everything into a folder, which it makes.
func Make(dir string, c Cluster) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make certificates: %w", err)
	}
	ca, err := newAuthority(dir, Authority, "kubernetes")
	if err != nil {
		return err
	}
	front, err := newAuthority(dir, FrontAuthority, "kubernetes-front-proxy")
	if err != nil {
		return err
	}
	for _, i := range []struct {
		by   *authority
		file string
		subject
	}{
		{ca, APIServer, subject{name: "kube-apiserver", hosts: c.Hosts}},
		{ca, APIServerKubelet, subject{name: "kube-apiserver", groups: []string{"system:masters"}}},
		{front, FrontProxy, subject{name: "front-proxy"}},
		{ca, Etcd, subject{name: "etcd", hosts: c.Hosts}},
		{ca, EtcdClient, subject{name: "etcd-client"}},
	} {
		if _, err := i.by.issue(i.file, i.subject); err != nil {
			return err
		}
	}
	if err := accountKey(dir); err != nil {
		return err
	}
	for user, s := range map[string]subject{
		Admin:             {name: "kubernetes-admin", groups: []string{"system:masters"}},
		ControllerManager: {name: "system:kube-controller-manager"},
		Scheduler:         {name: "system:kube-scheduler"},
		Proxy:             {name: "system:kube-proxy"},
	} {
		if err := signIn(dir, ca, c.Server, user, s); err != nil {
			return err
		}
	}
	for name, address := range c.Nodes {
		if _, err := ca.issue(KubeletServer(name), subject{name: name, hosts: []string{name, address}}); err != nil {
			return err
		}
		if err := signIn(dir, ca, c.Server, Node(name), subject{name: "system:node:" + name, groups: []string{"system:nodes"}}); err != nil {
			return err
		}
	}
	return nil
}

// signIn issues a user's certificate and writes a kubeconfig around it.
func signIn(dir string, ca *authority, server, user string, s subject) error {
	p, err := ca.issue(user, s)
	if err != nil {
		return err
	}
	text := base64.StdEncoding.EncodeToString
	return writeAll(dir, map[string][]byte{Kubeconfig(user): fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- name: kubelab
  cluster:
    server: %q
    certificate-authority-data: %s
users:
- name: %q
  user:
    client-certificate-data: %s
    client-key-data: %s
contexts:
- name: kubelab
  context: {cluster: kubelab, user: %[3]q}
current-context: kubelab
`, server, text(ca.pem), user, text(p.cert), text(p.key))})
}

// accountKey makes the key pair of service account tokens.
func accountKey(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make the key of service accounts: %w", err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("make the key of service accounts: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return fmt.Errorf("make the key of service accounts: %w", err)
	}
	return writeAll(dir, map[string][]byte{
		AccountKey:    pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}),
		AccountPublic: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
	})
}
