//go:build nextrelease

package cluster

// Newest of a release after this one: what tests of rolling upgrades build with
// -tags nextrelease, to replace this release by it and to roll back. Its format adds no
// field; this release cannot read it all the same, for it does not know that.
const Newest Format = 2
