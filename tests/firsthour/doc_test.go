// Package firsthour_test follows the README as somebody new does: the command that starts
// a broker, the cluster and the drill that breaks it in every way, each as it stands there
// and with what it prints.
package firsthour_test
