package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Cut drops every packet between two ends, in both directions, and Heal lets them
// pass again. An end is a pod ("namespace/name"), a network in CIDR notation, an
// address, or "all". Connections that are open are cut too, which a NetworkPolicy
// would leave. A node's own probes of its pods still pass, as they do when a real
// network is cut.
func (l *Lab) Cut(ctx context.Context, a, b string) error { return l.filter(ctx, "-I", a, b) }

// Heal undoes one Cut of the same ends. Pods that are gone meanwhile can be named
// by the address they had.
func (l *Lab) Heal(ctx context.Context, a, b string) error { return l.filter(ctx, "-D", a, b) }

func (l *Lab) filter(ctx context.Context, operation, a, b string) error {
	up, err := l.mustBeUp()
	if err != nil {
		return err
	}
	from, err := l.end(ctx, a)
	if err != nil {
		return err
	}
	to, err := l.end(ctx, b)
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range up.nodes() {
		for _, d := range [][2]netip.Prefix{{from, to}, {to, from}} {
			// After the translation of Service addresses and before the chains of
			// kube-proxy and the policies.
			args := l.within(n, "/usr/sbin/iptables", "--wait", "-t", "mangle", operation, "FORWARD", "-s", d[0].String(), "-d", d[1].String(), "-j", "DROP")
			if _, err := command(ctx, nil, args[0], args[1:]...); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", n.Name, err))
			}
			if from == to {
				break
			}
		}
	}
	return errors.Join(errs...)
}

// end finds the addresses of an end.
func (l *Lab) end(ctx context.Context, name string) (netip.Prefix, error) {
	if name == "all" {
		return netip.MustParsePrefix("0.0.0.0/0"), nil
	}
	if network, err := netip.ParsePrefix(name); err == nil {
		return network.Masked(), nil
	}
	if address, err := netip.ParseAddr(name); err == nil {
		return netip.PrefixFrom(address, address.BitLen()), nil
	}
	namespace, pod, is := strings.Cut(name, "/")
	if !is || namespace == "" || pod == "" {
		return netip.Prefix{}, fmt.Errorf("%q must be namespace/pod, an address, a network such as 10.0.0.0/8, or all", name)
	}
	text, err := l.kubectl(ctx, nil, "-n", namespace, "get", "pod", pod, "-o", "jsonpath={.status.podIP}")
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("find the address of pod %s: %w", name, err)
	}
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("pod %s has no address yet", name)
	}
	return netip.PrefixFrom(address, address.BitLen()), nil
}

// CutNode takes a node's cable out, HealNode puts it in again.
func (l *Lab) CutNode(ctx context.Context, name string) error { return l.cable(ctx, name, "down") }

// HealNode undoes CutNode.
func (l *Lab) HealNode(ctx context.Context, name string) error { return l.cable(ctx, name, "up") }

func (l *Lab) cable(ctx context.Context, name, state string) error {
	up, err := l.mustBeUp()
	if err != nil {
		return err
	}
	for _, n := range up.nodes() {
		if n.Name == name {
			_, err := command(ctx, nil, "ip", "link", "set", n.Namespace, state)
			return err
		}
	}
	return fmt.Errorf("there is no node %q; there are node1 to node%d", name, up.Nodes)
}

// mustBeUp returns the lab with the nodes it has.
func (l *Lab) mustBeUp() (*Lab, error) {
	now, err := l.Status()
	if err != nil {
		return nil, err
	}
	if now.Nodes == 0 {
		return nil, fmt.Errorf("no lab is up in %s: kubelab up", l.Dir)
	}
	up := *l
	up.Nodes = now.Nodes
	return &up, nil
}
