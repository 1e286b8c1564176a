//go:build !nextrelease && !distantrelease

package mesh

// Spoken is what this release speaks.
var Spoken = Versions{Min: 1, Max: 1}
