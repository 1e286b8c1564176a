//go:build !race

package simulation

// stride is every how many effects an exchange is broken.
const stride = 1
