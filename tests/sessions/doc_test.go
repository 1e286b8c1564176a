// Package sessions attacks the promise that a persistent session gets every
// acknowledged value: publishers and subscribers lose their connections at any
// packet, come back, take themselves over, acknowledge late or in part, and a
// checker holds what each subscriber received against what each publisher was
// told.
//
// Package device has the clients and the checker; kept_test.go and shared_test.go
// are the runs.
package sessions
