// Package cluster_test holds a clustered broker of real processes to its promises:
// two replicas, three NATS servers and PostgreSQL (tools/localcluster), devices
// that go on through whatever is done to them, and a checker that proves that
// nothing acknowledged was lost.
//
// Each row of the failure table is one test. It prints what it measured beside
// what is promised; what it asserts is the order of events, and figures only as
// generously as a busy machine needs. T is 5 s here, so what scales with it takes
// half as long as by default.
//
//	go test ./tests/cluster -v -run Row       the table
//	go test ./tests/cluster -v -run Row -long 10m -timeout 0
//
// rig_test.go has the deployment all tests share, load_test.go the devices.
package cluster_test
