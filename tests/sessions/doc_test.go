// Package sessions attacks the promise that a persistent session gets every
// acknowledged value: publishers and subscribers lose their connections at any
// packet, come back, take themselves over, acknowledge late or in part, and a
// checker holds what each subscriber received against what each publisher was
// told.
//
// device_test.go is a client that keeps its half of the session state as the
// standard asks, kept_test.go the run and the checker.
package sessions
