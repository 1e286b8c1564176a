package lab

import (
	"fmt"
	"path/filepath"
	"strings"

	"maestrohub.io/uns/tools/kubelab/machine"
)

// part is one process of the lab.
type part struct {
	name string
	args []string
}

func (l *Lab) pki(name string) string { return l.file("pki", name) }

// kubernetes is a command line of the one binary.
func (l *Lab) kubernetes(program string, flags ...string) []string {
	return append([]string{filepath.Join(l.Bin(), "kubernetes"), program}, flags...)
}

func (l *Lab) registryPart() part {
	return part{"registry", []string{l.self(), "serve-images", l.Registry(), l.file("images")}}
}

func (l *Lab) etcdPart() part {
	client, peer := "https://"+listen(etcdPort), "https://"+listen(peerPort)
	return part{"etcd", l.kubernetes("etcd",
		"--name=lab", "--data-dir="+l.file("etcd"), "--log-level=warn",
		"--unsafe-no-fsync", // a lab is made anew, never recovered
		"--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=lab="+peer,
		"--cert-file="+l.pki("etcd.crt"), "--key-file="+l.pki("etcd.key"), "--client-cert-auth", "--trusted-ca-file="+l.pki("ca.crt"),
		"--peer-cert-file="+l.pki("etcd.crt"), "--peer-key-file="+l.pki("etcd.key"), "--peer-client-cert-auth", "--peer-trusted-ca-file="+l.pki("ca.crt"))}
}

func (l *Lab) apiServerPart() part {
	host := hostAddress.Addr().String()
	return part{"apiserver", l.kubernetes("kube-apiserver",
		"--etcd-servers=https://"+listen(etcdPort), "--etcd-cafile="+l.pki("ca.crt"),
		"--etcd-certfile="+l.pki("etcd-client.crt"), "--etcd-keyfile="+l.pki("etcd-client.key"),
		"--bind-address="+host, "--advertise-address="+host, fmt.Sprintf("--secure-port=%d", apiPort),
		"--service-cluster-ip-range="+services.String(), "--allow-privileged=true",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		// Pods leave a lost node while a test still waits.
		"--default-not-ready-toleration-seconds=30", "--default-unreachable-toleration-seconds=30",
		"--client-ca-file="+l.pki("ca.crt"), "--tls-cert-file="+l.pki("apiserver.crt"), "--tls-private-key-file="+l.pki("apiserver.key"),
		"--kubelet-client-certificate="+l.pki("apiserver-kubelet.crt"), "--kubelet-client-key="+l.pki("apiserver-kubelet.key"),
		"--kubelet-certificate-authority="+l.pki("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		"--service-account-key-file="+l.pki("account.pub"), "--service-account-signing-key-file="+l.pki("account.key"),
		"--service-account-issuer=https://kubernetes.default.svc."+domain,
		"--requestheader-client-ca-file="+l.pki("front-ca.crt"), "--requestheader-allowed-names=front-proxy",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file="+l.pki("front-proxy.crt"), "--proxy-client-key-file="+l.pki("front-proxy.key"),
		"--profiling=false")}
}

// controllerParts need the API server.
func (l *Lab) controllerParts() []part {
	manager, scheduler := l.pki("controller-manager.kubeconfig"), l.pki("scheduler.kubeconfig")
	return []part{
		{"controller-manager", l.kubernetes("kube-controller-manager",
			"--kubeconfig="+manager, "--secure-port=0", "--leader-elect=false", "--use-service-account-credentials=true",
			"--service-account-private-key-file="+l.pki("account.key"), "--root-ca-file="+l.pki("ca.crt"),
			"--cluster-signing-cert-file="+l.pki("ca.crt"), "--cluster-signing-key-file="+l.pki("ca.key"),
			"--allocate-node-cidrs=false", "--cluster-cidr="+pods.String(), "--service-cluster-ip-range="+services.String(),
			"--node-monitor-period=2s", "--node-monitor-grace-period=16s", "--profiling=false",
			// The end of one namespace takes hundreds of requests, of which 20 a second are allowed by itself.
			"--kube-api-qps=200", "--kube-api-burst=400")},
		{"scheduler", l.kubernetes("kube-scheduler", "--kubeconfig="+scheduler, "--secure-port=0", "--leader-elect=false", "--profiling=false")},
		{"volume", l.kubernetes("volume", "-kubeconfig="+l.Kubeconfig(), "-dir="+l.file("volumes"))},
		{"balancer", l.kubernetes("balancer", "-kubeconfig="+l.Kubeconfig(), "-pool="+pool.String())},
	}
}

// within has a command run in a node's network and cgroup.
func (l *Lab) within(n Node, args ...string) []string {
	return append([]string{l.self(), "enter", machine.Namespace(n.Namespace), string(n.system()), "--"}, args...)
}

func (n Node) partName(part string) string { return fmt.Sprintf("%s-n%d", part, n.Number) }

func (l *Lab) containerdPart(n Node) part {
	return part{n.partName("containerd"), l.within(n, "/usr/bin/containerd", "--config", filepath.Join(n.Dir, "containerd.toml"))}
}

// nodeParts need the API server and the node's containerd.
func (l *Lab) nodeParts(n Node) []part {
	return []part{
		{n.partName("kubelet"), l.within(n, l.kubernetes("kubelet",
			"--config="+filepath.Join(n.Dir, "kubelet.yaml"), "--kubeconfig="+l.pki("kubelet-"+n.Name+".kubeconfig"),
			"--hostname-override="+n.Name, "--node-ip="+n.Address.String(), "--root-dir="+filepath.Join(n.Dir, "kubelet"),
			"--cert-dir="+filepath.Join(n.Dir, "kubelet", "pki"), "--volume-plugin-dir="+filepath.Join(n.Dir, "kubelet", "plugins"),
			"--node-labels=topology.kubernetes.io/region=lab,topology.kubernetes.io/zone=zone"+strings.TrimPrefix(n.Name, "node"))...)},
		{n.partName("proxy"), l.within(n, l.kubernetes("kube-proxy", "--config="+filepath.Join(n.Dir, "kube-proxy.yaml"))...)},
	}
}

// policyPart needs the node to be known.
func (l *Lab) policyPart(n Node) part {
	return part{n.partName("policy"), l.within(n, l.kubernetes("policy",
		"-kubeconfig="+l.Kubeconfig(), "-node="+n.Name, "-services="+services.String())...)}
}
