package lab

import (
	"fmt"
	"net/netip"
	"path/filepath"

	"maestrohub.io/uns/tools/kubelab/machine"
)

// Networks of a lab. They are not configurable: one lab runs on a machine at a time,
// and whoever else uses one of them is told so.
var (
	hostAddress = netip.MustParsePrefix("172.31.250.1/24") // the machine, where the control plane listens
	services    = netip.MustParsePrefix("10.251.0.0/16")   // ClusterIPs
	pool        = netip.MustParsePrefix("172.31.251.0/24") // addresses of load balancers
	pods        = netip.MustParsePrefix("10.250.0.0/16")   // node n has 10.250.n.0/24
)

const (
	bridge    = "kubelab"
	domain    = "cluster.local"
	dns       = "10.251.0.10"
	apiPort   = 6443
	etcdPort  = 2379
	peerPort  = 2380
	imagePort = 5000
)

// MaxNodes is how many nodes the networks have room for.
const MaxNodes = 9

// Node is one node of a lab.
type Node struct {
	Number  int
	Name    string // node1
	Address netip.Addr
	Pods    netip.Prefix

	Dir        string // its part of the lab's folder
	Namespace  string // network namespace
	Cgroup     machine.Cgroup
	Containerd string // socket
}

// node is the plan of a node.
func (l *Lab) node(number int) Node {
	host, pod := hostAddress.Addr().As4(), pods.Addr().As4()
	host[3] = byte(10 + number)
	pod[2] = byte(number)
	dir := filepath.Join(l.Dir, fmt.Sprintf("n%d", number))
	return Node{
		Number: number, Name: fmt.Sprintf("node%d", number),
		Address: netip.AddrFrom4(host), Pods: netip.PrefixFrom(netip.AddrFrom4(pod), 24),
		Dir: dir, Namespace: fmt.Sprintf("%s-n%d", bridge, number),
		Cgroup:     machine.Cgroup(fmt.Sprintf("%s/n%d", bridge, number)),
		Containerd: filepath.Join(dir, "containerd.sock"),
	}
}

// system is the cgroup of a node's own processes; pods are beside it.
func (n Node) system() machine.Cgroup { return n.Cgroup + "/system" }

func (l *Lab) nodes() (nodes []Node) {
	for n := range l.Nodes {
		nodes = append(nodes, l.node(n+1))
	}
	return nodes
}

// network is the plan of the network.
func (l *Lab) network() machine.Network {
	n := machine.Network{Bridge: bridge, Address: hostAddress, Beyond: []netip.Prefix{services}}
	for _, node := range l.nodes() {
		n.Nodes = append(n.Nodes, machine.NetworkNode{Namespace: node.Namespace, Address: node.Address, Pods: node.Pods})
	}
	return n
}

// listen is an address of the machine on the bridge.
func listen(port int) string {
	return netip.AddrPortFrom(hostAddress.Addr(), uint16(port)).String()
}

// Server is the URL of the API server, Registry the address images are pushed to.
func (l *Lab) Server() string   { return "https://" + listen(apiPort) }
func (l *Lab) Registry() string { return listen(imagePort) }

// Kubeconfig is the path of the administrator's kubeconfig.
func (l *Lab) Kubeconfig() string { return l.file("pki", "admin.kubeconfig") }

// Bin is a folder with kubectl and helm.
func (l *Lab) Bin() string { return filepath.Join(l.Cache, "programs") }

func (l *Lab) file(names ...string) string {
	return filepath.Join(append([]string{l.Dir}, names...)...)
}
