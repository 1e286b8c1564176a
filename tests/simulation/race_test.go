//go:build race

package simulation

// stride is every how many effects an exchange is broken: the race detector makes all of it
// four times as slow.
const stride = 3
