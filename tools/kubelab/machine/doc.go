// Package machine is what a lab takes of the machine and gives back: a bridge, a
// network namespace and cgroups for each node, kernel settings that the kubelet
// changes, and the mounts below the lab's folder.
//
// Everything is found again by its name alone, so that what an interrupted start
// left is taken down like what a whole one made. Removing what is not there is no
// error. The host's own iptables and forwarding are never touched: packets are
// filtered and forwarded inside the nodes' namespaces.
package machine
