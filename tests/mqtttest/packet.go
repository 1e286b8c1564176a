package mqtttest

import (
	"fmt"

	"maestrohub.io/uns/broker/mqtt"
)

// Packet is one packet as it came.
type Packet struct {
	Header mqtt.Header
	// Raw is the whole packet, its fixed header included.
	Raw []byte
	// Content is a pointer to the packet's type of package mqtt (*mqtt.Ack for all
	// four acknowledgments), nil for PINGREQ and PINGRESP.
	Content any
}

// decodePacket takes one packet, whole and of memory of its own.
func decodePacket(v mqtt.Version, h mqtt.Header, raw []byte) (Packet, error) {
	p := Packet{Header: h, Raw: raw}
	var content interface {
		Decode(v mqtt.Version, h mqtt.Header, body []byte) error
	}
	switch h.Type {
	case mqtt.CONNACK:
		content = new(mqtt.Connack)
	case mqtt.PUBLISH:
		content = new(mqtt.Publish)
	case mqtt.PUBACK, mqtt.PUBREC, mqtt.PUBREL, mqtt.PUBCOMP:
		content = new(mqtt.Ack)
	case mqtt.SUBACK:
		content = new(mqtt.Suback)
	case mqtt.UNSUBACK:
		content = new(mqtt.Unsuback)
	case mqtt.PINGRESP:
		return p, mqtt.DecodePing(h)
	case mqtt.DISCONNECT:
		content = new(mqtt.Disconnect)
	case mqtt.AUTH:
		content = new(mqtt.Auth)
	default:
		return p, fmt.Errorf("the broker sent a %s", h.Type)
	}
	p.Content = content
	return p, content.Decode(v, h, raw[h.Size:])
}

// describe writes a packet for the history.
func describe(p Packet) string {
	const most = 96
	raw := p.Raw
	more := ""
	if len(raw) > most {
		raw, more = raw[:most], fmt.Sprintf("... of %d bytes", len(p.Raw))
	}
	text := fmt.Sprintf("%s %x%s", p.Header.Type, raw, more)
	switch content := p.Content.(type) {
	case *mqtt.Publish:
		return fmt.Sprintf("%s\n        topic %q id %d QoS %d dup %v retain %v payload %.80q", text, content.Topic, content.PacketID, content.QoS, content.Dup, content.Retain, content.Payload)
	case *mqtt.Ack:
		return fmt.Sprintf("%s\n        id %d %s %q", text, content.PacketID, content.Code.Error(), content.ReasonString)
	case *mqtt.Connack:
		return fmt.Sprintf("%s\n        session present %v, %s %q", text, content.SessionPresent, content.Code.Error(), content.ReasonString)
	case *mqtt.Suback:
		return fmt.Sprintf("%s\n        id %d %v %q", text, content.PacketID, content.Codes, content.ReasonString)
	case *mqtt.Unsuback:
		return fmt.Sprintf("%s\n        id %d %v %q", text, content.PacketID, content.Codes, content.ReasonString)
	case *mqtt.Disconnect:
		return fmt.Sprintf("%s\n        %s %q", text, content.Code.Error(), content.ReasonString)
	default:
		return text
	}
}
