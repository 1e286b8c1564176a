// Package cluster_test holds a clustered broker of real processes to its promises:
// two replicas, three NATS servers and PostgreSQL (tools/localcluster), devices
// that go on through whatever is done to them, and a checker that proves that
// nothing acknowledged was lost.
//
// Each row of the failure table is one test. It prints what it measured beside what
// is promised, and with -rewrite puts it into runbooks/failure-table.md; what it asserts
// is the order of events, and figures only as generously as a busy machine needs. T is
// 5 s unless told otherwise, so what scales with it takes half as long as by default.
//
//	go test ./tests/cluster -v -run Row -rewrite                 the table, T = 5 s
//	go test ./tests/cluster -v -T 10s -timeout 0 -rewrite        at the default T; also 20s
//	go test ./tests/cluster -v -T 10s -timeout 0 -run Slow -long 10m
//	go test ./tests/cluster -v -binary bin/broker -replicas 3
//
// promises_test.go has every line of the table, page_test.go writes it; rig_test.go has
// the deployment the tests share, load_test.go its devices, state_test.go what the tests
// read of the shared state themselves.
package cluster_test
