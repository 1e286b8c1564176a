// Package balancer gives Services of type LoadBalancer an address and leads this
// machine's traffic for it to a node: what a cloud's load balancer does for a
// cluster of its own, at the size of a lab.
//
// An address is one of a pool that lies outside the nodes' network. Traffic reaches
// it by a route of this machine's over a node that is ready and, with the external
// traffic policy Local, has a ready endpoint; kube-proxy on that node does the rest,
// so the device's own address arrives. When the node stops qualifying, the route
// moves to another within moments: open connections over the old node end, as they
// would if a load balancer's target went.
//
// One route at a time leads to one node: with the policy Local, all connections go
// to the endpoints of that node.
package balancer
