package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// Network is how the nodes are connected: each is a network namespace with one end
// of a cable; the other ends meet on a bridge, which has the machine's own address.
type Network struct {
	Bridge  string
	Address netip.Prefix // the machine's on the bridge
	Nodes   []NetworkNode
	// Beyond are networks that this machine reaches over the first node: ClusterIPs.
	Beyond []netip.Prefix
}

// NetworkNode is a node's part.
type NetworkNode struct {
	Namespace string // also the name of the cable's end on the bridge
	Address   netip.Addr
	Pods      netip.Prefix
}

// namespaces is where ip(8) keeps those with a name.
const namespaces = "/run/netns"

// Namespace is the path of a named network namespace.
func Namespace(name string) string { return filepath.Join(namespaces, name) }

// Make makes the network. What of it is there already must be nobody else's: Free.
func (n Network) Make(ctx context.Context) error {
	do := [][]string{
		{"link", "add", n.Bridge, "type", "bridge"},
		{"address", "add", n.Address.String(), "dev", n.Bridge},
		{"link", "set", n.Bridge, "up"},
	}
	for _, node := range n.Nodes {
		in := []string{"-netns", node.Namespace}
		within := func(args ...string) { do = append(do, append(append([]string(nil), in...), args...)) }
		do = append(do,
			[]string{"netns", "add", node.Namespace},
			[]string{"link", "add", node.Namespace, "type", "veth", "peer", "name", "eth0", "netns", node.Namespace},
			[]string{"link", "set", node.Namespace, "master", n.Bridge, "up"})
		within("link", "set", "lo", "up")
		within("address", "add", netip.PrefixFrom(node.Address, n.Address.Bits()).String(), "dev", "eth0")
		within("link", "set", "eth0", "up")
		within("route", "add", "default", "via", n.Address.Addr().String())
		for _, other := range n.Nodes {
			if other.Namespace != node.Namespace {
				within("route", "add", other.Pods.String(), "via", other.Address.String())
			}
		}
		do = append(do, []string{"route", "add", node.Pods.String(), "via", node.Address.String()})
	}
	for _, network := range n.Beyond {
		do = append(do, []string{"route", "add", network.String(), "via", n.Nodes[0].Address.String()})
	}
	for _, args := range do {
		if err := run(ctx, "ip", args...); err != nil {
			return fmt.Errorf("make the network: %w", err)
		}
	}
	for _, node := range n.Nodes {
		// A node forwards between its pods and the others; the machine itself does not.
		if err := run(ctx, "ip", "netns", "exec", node.Namespace, "sysctl", "-qw", "net.ipv4.ip_forward=1"); err != nil {
			return fmt.Errorf("make the network: %w", err)
		}
	}
	return nil
}

// podNamespace are those that containerd makes for pods, named in a node's links.
var podNamespace = regexp.MustCompile(`link-netns (cni-[0-9a-f-]+)`)

// Remove removes whatever of the network is there, the namespaces of the nodes' pods
// with it. Routes go with the bridge.
func (n Network) Remove(ctx context.Context) error {
	var errs []error
	for _, node := range n.Nodes {
		if _, err := os.Stat(Namespace(node.Namespace)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		links, err := output(ctx, "ip", "-netns", node.Namespace, "-o", "link")
		if err != nil {
			errs = append(errs, err)
		}
		for _, m := range podNamespace.FindAllStringSubmatch(links, -1) {
			errs = append(errs, run(ctx, "ip", "netns", "delete", m[1]))
		}
		errs = append(errs, run(ctx, "ip", "netns", "delete", node.Namespace))
	}
	for _, link := range append([]string{n.Bridge}, cables(n.Nodes)...) {
		if _, err := os.Stat("/sys/class/net/" + link); err == nil {
			if err := run(ctx, "ip", "link", "delete", link); err != nil && !strings.Contains(err.Error(), "Cannot find device") {
				errs = append(errs, err) // a cable may go with its namespace meanwhile
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove the network: %w", err)
	}
	return nil
}

func cables(nodes []NetworkNode) (names []string) {
	for _, n := range nodes {
		names = append(names, n.Namespace)
	}
	return names
}

// Present reports what of the network is there.
func (n Network) Present() (there []string) {
	for _, link := range append([]string{n.Bridge}, cables(n.Nodes)...) {
		if _, err := os.Stat("/sys/class/net/" + link); err == nil {
			there = append(there, "link "+link)
		}
	}
	for _, node := range n.Nodes {
		if _, err := os.Stat(Namespace(node.Namespace)); err == nil {
			there = append(there, "network namespace "+node.Namespace)
		}
	}
	return there
}

// Free reports, as an error, that somebody else uses one of the networks: a route of
// this machine leads there.
func Free(ctx context.Context, networks ...netip.Prefix) error {
	routes, err := output(ctx, "ip", "-4", "-o", "route", "show", "table", "all")
	if err != nil {
		return fmt.Errorf("look at the routes: %w", err)
	}
	return conflict(routes, networks)
}

// conflict finds a route that shares addresses with one of the networks. The
// default route, and others that are wider than what they cover, are no conflict:
// the lab's routes are narrower and win.
func conflict(routes string, networks []netip.Prefix) error {
	for _, line := range strings.Split(routes, "\n") {
		fields := strings.Fields(line)
		for len(fields) > 0 && (fields[0] == "local" || fields[0] == "broadcast") {
			fields = fields[1:]
		}
		if len(fields) == 0 {
			continue
		}
		to, err := netip.ParsePrefix(fields[0])
		if err != nil {
			address, err := netip.ParseAddr(fields[0])
			if err != nil {
				continue // default
			}
			to = netip.PrefixFrom(address, address.BitLen())
		}
		for _, n := range networks {
			if n.Overlaps(to) && to.Bits() >= n.Bits() {
				return fmt.Errorf("network %s, which the lab needs, is in use on this machine: route %q", n, line)
			}
		}
	}
	return nil
}

// run runs a program and returns what it printed as part of the error.
func run(ctx context.Context, name string, args ...string) error {
	_, err := output(ctx, name, args...)
	return err
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}
