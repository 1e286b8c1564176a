package mqtt

import "fmt"

// Version is the protocol level a CONNECT names. Every comparison in this
// package is "before V5" or "V5 and later", so that the level of a CONNECT that
// is refused still picks the CONNACK its sender can read.
type Version byte

// The versions the package speaks.
const (
	V31  Version = 3 // protocol name "MQIsdp"
	V311 Version = 4 // protocol name "MQTT"
	V5   Version = 5 // protocol name "MQTT"
)

// String returns the version as people write it: "3.1", "3.1.1" or "5".
func (v Version) String() string {
	switch v {
	case V31:
		return "3.1"
	case V311:
		return "3.1.1"
	case V5:
		return "5"
	default:
		return fmt.Sprintf("level %d", byte(v))
	}
}

// PacketType is the MQTT control packet type, the upper half of a packet's
// first byte.
type PacketType byte

// The control packet types. AUTH exists in MQTT 5 only; 0 is forbidden.
const (
	CONNECT PacketType = iota + 1
	CONNACK
	PUBLISH
	PUBACK
	PUBREC
	PUBREL
	PUBCOMP
	SUBSCRIBE
	SUBACK
	UNSUBSCRIBE
	UNSUBACK
	PINGREQ
	PINGRESP
	DISCONNECT
	AUTH
)

var packetNames = [16]string{"reserved", "CONNECT", "CONNACK", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP",
	"SUBSCRIBE", "SUBACK", "UNSUBSCRIBE", "UNSUBACK", "PINGREQ", "PINGRESP", "DISCONNECT", "AUTH"}

// String returns the standard's name of the packet.
func (t PacketType) String() string {
	if int(t) < len(packetNames) {
		return packetNames[t]
	}
	return fmt.Sprintf("packet type %d", byte(t))
}
