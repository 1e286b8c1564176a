// Package statetest is the conformance suite of state.Store: the laws of package
// state as tests. Every implementation passes it unchanged; where the laws allow
// a store to answer late, stale or with an unknown outcome, so does the suite.
//
// Run takes a function that opens the store under test, empty for each test, and
// Options that say what is known of it: its bounds, how long it may take, and
// which of the laws to try. A test that knows the store's servers can so harm
// them while the laws are tried.
package statetest
