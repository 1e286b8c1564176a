package mqtt

import "maestrohub.io/uns/broker/value"

// problem is a packet with the two properties a sender leaves out rather than
// exceed the receiver's Maximum Packet Size.
type problem[T any] interface {
	*T
	Append(dst []byte, v Version) []byte
	optional() (*string, *[]value.UserProperty)
}

// appendLimited appends p to dst within max bytes (0: the protocol's own limit):
// whole, or without its user properties, or also without its reason string, or,
// if even that is too large, not at all.
func appendLimited[T any, P problem[T]](p P, dst []byte, v Version, max uint32) []byte {
	limit := MaxRemaining + 5
	if max != 0 && int64(max) < int64(limit) {
		limit = int(max)
	}
	start := len(dst)
	if dst = p.Append(dst, v); len(dst)-start <= limit {
		return dst
	}
	small := *p
	reason, user := P(&small).optional()
	*user = nil
	if dst = P(&small).Append(dst[:start], v); len(dst)-start <= limit {
		return dst
	}
	*reason = ""
	if dst = P(&small).Append(dst[:start], v); len(dst)-start <= limit {
		return dst
	}
	return dst[:start] // [MQTT-3.1.2-24]
}
