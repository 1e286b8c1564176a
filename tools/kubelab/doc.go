// Command kubelab brings up a real Kubernetes on this machine, with everything the
// chart and its tests need, and takes it down without a trace.
//
//	go run -C tools/kubelab . up --nodes 3
//	eval "$(go run -C tools/kubelab . env)"
//	kubectl get nodes
//	go run -C tools/kubelab . down
//
// It wants a Debian 12 machine, root, Go, and the Debian packages that
// tools/setup/install lab installs. Everything else comes from Go modules. The first
// time it compiles Kubernetes, which takes about ten minutes of two cores; after that
// a lab is up within half a minute.
//
// README.md says what there is in a lab and how a test uses it; package lab how it
// is made.
package main
