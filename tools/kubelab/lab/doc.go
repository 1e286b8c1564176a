// Package lab brings up a Kubernetes on one machine and takes it down again.
//
//	l := lab.New(lab.Options{Root: root, Nodes: 3, Say: say})
//	err := l.Up(ctx)
//	err = l.Down(ctx)
//
// The control plane (etcd, API server, controller manager, scheduler), a registry
// with the images, a provisioner of volumes and a load balancer run on the machine
// itself. Each node is a network namespace and a cgroup with a containerd, a kubelet,
// a kube-proxy and a policy controller of its own: pods of two nodes talk over
// the network, one node can be cut off or lost, and the machine's own iptables are
// never touched.
//
// What Up does:
//
//  1. Checks what it needs: root, Debian's packages, free networks, nothing half up.
//  2. Builds the programs and the images, or finds them built.
//  3. Makes certificates, the network, the cgroups.
//  4. Starts the processes and pushes the images to the registry.
//  5. Waits until every node is ready and DNS answers.
//
// Down undoes all of it, in whatever state it finds it: processes by their recorded
// ids and by their cgroup, mounts, cgroups, namespaces, bridge, kernel settings, the
// folder. What stays is the cache, so that the next Up builds nothing. An Up that
// fails or is interrupted takes down what it has begun.
//
// Everything that is the lab's carries its name: the bridge and the namespaces are
// called kubelab…, the cgroups lie below kubelab/, the files in one folder. There is
// one lab on a machine at a time.
package lab
