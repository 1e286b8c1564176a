//go:build nextrelease && !distantrelease

package mesh

// Spoken by the release after this one, as tests of rolling upgrades build it.
var Spoken = Versions{Min: 1, Max: 2}
