package topic

import (
	"fmt"
	"strings"
)

// sharePrefix begins the filter of a shared subscription [MQTT-4.8.2-1].
const sharePrefix = "$share/"

// ParseShare takes the filter of a shared subscription apart:
// "$share/<share>/<rest>". Of any other filter it returns the whole as rest and
// shared false. The rest is not checked further: pass it to ValidateFilter.
//
// "$share" alone, without a slash, is an ordinary filter.
func ParseShare(filter string) (share, rest string, shared bool, err error) {
	after, shared := strings.CutPrefix(filter, sharePrefix)
	if !shared {
		return "", filter, false, nil
	}
	share, rest, found := strings.Cut(after, "/")
	switch {
	case share == "":
		// [MQTT-4.8.2-1]
		return "", "", true, fmt.Errorf("shared subscription %s has no share name: it needs at least one character [MQTT-4.8.2-1]", quote(filter))
	case strings.ContainsAny(share, "+#"):
		// [MQTT-4.8.2-2]
		return "", "", true, fmt.Errorf("shared subscription %s has a wildcard in its share name [MQTT-4.8.2-2]", quote(filter))
	case !found || rest == "":
		return "", "", true, fmt.Errorf("shared subscription %s has no topic filter after its share name [MQTT-4.8.2-2]", quote(filter))
	}
	return share, rest, true, nil
}
