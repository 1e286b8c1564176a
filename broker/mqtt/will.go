package mqtt

import "maestrohub.io/uns/broker/value"

// Will is the Last Will a CONNECT carries. It owns its memory.
type Will struct {
	QoS     byte
	Retain  bool
	Topic   string
	Payload []byte
	// Delay is the Will Delay Interval in seconds, 0 if absent.
	Delay uint32
	// MessageExpiry is the Message Expiry Interval in seconds, valid if HasExpiry.
	MessageExpiry uint32
	HasExpiry     bool
	// Properties keep the order of the user properties [MQTT-3.1.3-10].
	Properties value.Properties
}

// will reads the will fields of a CONNECT: all of them or none [MQTT-3.1.2-9].
func (r *reader) will(qos byte, retain bool) *Will {
	w := &Will{QoS: qos, Retain: retain}
	if r.v >= V5 {
		r.need("will properties", statement{v5: "MQTT-3.1.2-9"})
		r.openProperties(will)
		for id := r.next(); id != 0; id = r.next() {
			switch id {
			case willDelay:
				w.Delay = r.uint32(willDelay.String())
			case messageExpiry:
				w.MessageExpiry, w.HasExpiry = r.uint32(messageExpiry.String()), true
			default:
				r.forwarded(id, &w.Properties)
			}
		}
	}
	r.need("will topic", statement{"MQTT-3.1.2-9", "MQTT-3.1.2-9"})
	// [MQTT-3.1.3-11], in 3.1.1 [MQTT-3.1.3-10]; no wildcard [MQTT-4.7.0-1], in 3.1.1 [MQTT-4.7.1-1]
	w.Topic = string(r.name("will topic", statement{"MQTT-4.7.0-1", "MQTT-4.7.1-1"}))
	if w.Topic == "" && r.err == nil { // [MQTT-4.7.3-1]
		r.fail(MalformedPacket, statement{"MQTT-4.7.3-1", "MQTT-4.7.3-1"}, "will topic is empty")
	}
	r.need("will payload", statement{"MQTT-3.1.2-9", "MQTT-3.1.2-9"})
	w.Payload = r.copied("will payload")
	return w
}

func (w *Will) append(dst []byte, v Version) []byte {
	if v >= V5 {
		var at int
		dst, at = open(dst)
		if w.Delay != 0 {
			dst = appendUint32Property(dst, willDelay, w.Delay)
		}
		if w.HasExpiry {
			dst = appendUint32Property(dst, messageExpiry, w.MessageExpiry)
		}
		dst = shut(appendForwarded(dst, &w.Properties), at)
	}
	return appendBytes(appendString(dst, w.Topic), w.Payload)
}
