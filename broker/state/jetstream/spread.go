package jetstream

import (
	"hash/fnv"
	"regexp"
	"slices"
	"strconv"
)

// ordinal is the number a StatefulSet gives its pods at the end of their names.
var ordinal = regexp.MustCompile(`[0-9]{1,9}$`)

// Spread orders servers for a replica: each of a StatefulSet's replicas begins with
// another one, so that a server which hangs does so for one of them, whose devices
// find the others serving.
func Spread(servers []string, replica string) []string {
	if len(servers) == 0 {
		return nil
	}
	n, err := strconv.Atoi(ordinal.FindString(replica))
	if err != nil {
		h := fnv.New32a()
		_, _ = h.Write([]byte(replica))
		n = int(h.Sum32() & (1<<31 - 1))
	}
	n %= len(servers)
	return slices.Concat(servers[n:], servers[:n])
}
