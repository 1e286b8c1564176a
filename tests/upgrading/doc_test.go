// Package upgrading_test takes the steps of UPGRADING.md and runbooks/certificates.md that need no Kubernetes, on real
// processes: two replicas, three NATS servers, PostgreSQL, and the real nats command line. The others are taken on a
// cluster, in tests/kubernetes.
package upgrading_test
