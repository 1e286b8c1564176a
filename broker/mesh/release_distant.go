//go:build distantrelease

package mesh

// Spoken by a release so much later that it has no version in common with this one.
var Spoken = Versions{Min: 2, Max: 2}
