// Package policy enforces a cluster's NetworkPolicies on one node: it runs the
// policy controller of kube-router, which writes iptables rules and ipsets in the
// network namespace it is started in, and nothing else of kube-router.
//
// What to know when reading a test's result:
//
//   - Refused traffic is rejected, not dropped: a dial fails at once.
//   - A new pod's allowance comes 0.1 to 1.5 s after its address.
//   - Connections that are open stay open when a policy would refuse them.
//   - Traffic from a pod's own node always passes. What came through a NodePort of
//     another node carries that node's address.
package policy
