//go:build !nextrelease

package cluster

// Newest is the newest format this release reads and can write.
const Newest Format = 1
