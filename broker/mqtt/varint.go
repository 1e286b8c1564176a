package mqtt

// MaxRemaining is the largest value of a variable byte integer, and so the
// largest remaining length of a packet.
const MaxRemaining = 268_435_455

// varintSize returns how many bytes the variable byte integer x takes.
func varintSize(x int) int {
	switch {
	case x < 1<<7:
		return 1
	case x < 1<<14:
		return 2
	case x < 1<<21:
		return 3
	default:
		return 4
	}
}

// appendVarint appends x in the shortest form [MQTT-1.5.5-1].
func appendVarint(dst []byte, x int) []byte {
	for x >= 1<<7 {
		dst = append(dst, byte(x)|0x80)
		x >>= 7
	}
	return append(dst, byte(x))
}
