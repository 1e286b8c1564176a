// Package kubernetes_test installs the chart on a real Kubernetes and holds it to its
// promises: devices publish and persistent sessions subscribe while pods are deleted
// and killed, replicas are upgraded, nodes drained, NATS servers lost and networks
// cut, and a checker proves that nothing acknowledged was lost and no will of a device
// that came back was sent.
//
//	make e2e                                    brings up a lab (tools/kubelab), runs, takes it down
//	make e2e E2E_KUBECONFIG=… E2E_REGISTRY=…    the same on a cluster of yours, with the images in your registry
//	go test -run Killed -v .                    one row, on a lab that is up (kubelab env)
//
// Each test is one row, which prints what it measured beside what is promised. A row
// finds the release whole and leaves it to the next, which makes it whole again;
// what a row installs beside it is gone when it ends, failed or not.
//
// Rows that reach below Kubernetes (kill -9 of a container, a cut network) need a
// lab; on another cluster they say so and are skipped. What tests reach of such a
// cluster, and how, is way_test.go's; yours_test.go shows it.
//
// Rows share a release and go on one after the other; beside them, also one after the
// other, go the tests that install a release of their own (lanes_test.go).
//
// cluster_test.go talks to Kubernetes, release_test.go installs the chart,
// site_test.go has the release that rows share. The module addons has what clusters
// have besides Kubernetes: cert-manager, and the definitions of others' objects.
package kubernetes_test
