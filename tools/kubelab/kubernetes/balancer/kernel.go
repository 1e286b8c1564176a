package balancer

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink"
)

// kernel is the routing table of the network namespace this process runs in.
type kernel struct{}

func (kernel) Lead(address, gateway netip.Addr) error {
	r := route(address)
	r.Gw = gateway.AsSlice()
	if err := netlink.RouteReplace(r); err != nil {
		return fmt.Errorf("route %s over %s: %w", address, gateway, err)
	}
	return nil
}

func (kernel) Drop(address netip.Addr) error {
	if err := netlink.RouteDel(route(address)); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("end the route of %s: %w", address, err)
	}
	return nil
}

func route(address netip.Addr) *netlink.Route {
	return &netlink.Route{Dst: &net.IPNet{IP: address.AsSlice(), Mask: net.CIDRMask(address.BitLen(), address.BitLen())}}
}
