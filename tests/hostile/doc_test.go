// Package hostile_test does to a broker what the open network does, while two
// healthy clients (witness_test.go) go on exchanging values over it: each attack
// must end as the broker's limits say, and the healthy clients must not notice.
// The broker runs with small limits, so that an attack meets them.
package hostile_test
