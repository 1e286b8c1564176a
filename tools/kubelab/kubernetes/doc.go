// Command kubernetes is every program of a Kubernetes in one static binary: etcd,
// the API server, the controller manager, the scheduler, the kubelet, kube-proxy
// and kubectl as they are released, and three of the lab's own:
//
//	policy    enforces NetworkPolicies on a node, with kube-router's controller
//	volume    makes volumes of folders of this machine
//	balancer  gives Services of type LoadBalancer an address and routes to it
//
// Its first argument, or the name it is called by, says which of them it is. The
// binary is one because they share nearly all of their code: together they are
// built in ten minutes, one by one in an hour.
//
// The module is one of its own: its versions are those Kubernetes is released
// with, and nothing of them reaches the broker's. coredns is a binary beside it,
// for an image that need not carry all of this.
package main
