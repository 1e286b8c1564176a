//go:build !race

package replica_test

const fewer = 1
