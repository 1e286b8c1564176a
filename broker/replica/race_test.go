//go:build race

package replica_test

// fewer is what the numbers of clients are divided by: the race detector makes each
// cost ten times as much.
const fewer = 5
