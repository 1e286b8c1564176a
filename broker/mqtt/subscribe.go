package mqtt

import (
	"strings"

	"maestrohub.io/uns/broker/value"
)

// Subscribe is a SUBSCRIBE packet. It owns its memory.
type Subscribe struct {
	PacketID uint16
	// SubscriptionID is the Subscription Identifier, 0 if absent.
	SubscriptionID uint32
	User           []value.UserProperty
	Filters        []Subscription
}

// Subscription is one topic filter of a SUBSCRIBE with its options. Before MQTT 5
// there is the QoS alone. Where wildcards may stand and what follows "$share/"
// is not checked here.
type Subscription struct {
	Filter            string
	QoS               byte
	NoLocal           bool
	RetainAsPublished bool
	// RetainHandling is 0 (send retained messages), 1 (only if the subscription
	// is new) or 2 (send none).
	RetainHandling byte
}

// sharePrefix begins the filter of a shared subscription.
const sharePrefix = "$share/"

// Decode reads the body of a SUBSCRIBE with fixed header h. It resets s first.
func (s *Subscribe) Decode(v Version, h Header, body []byte) error {
	*s = Subscribe{}
	if err := h.check(v, SUBSCRIBE); err != nil {
		return err
	}
	r := reader{rest: body, v: v, t: SUBSCRIBE}
	s.PacketID = r.identifier(publishID)
	if v >= V5 {
		r.openProperties(SUBSCRIBE)
		for id := r.next(); id != 0; id = r.next() {
			switch id {
			case subscriptionIdentifier:
				s.SubscriptionID = r.subscriptionID()
			case userProperty:
				s.User = r.user(s.User)
			}
		}
	}
	for len(r.rest) > 0 {
		f := Subscription{Filter: r.filter()} // [MQTT-3.8.3-1]
		f.options(&r)
		s.Filters = append(s.Filters, f)
	}
	if len(s.Filters) == 0 && r.err == nil { // [MQTT-3.8.3-2], in 3.1.1 [MQTT-3.8.3-3]
		r.fail(ProtocolError, statement{"MQTT-3.8.3-2", "MQTT-3.8.3-3"}, "no topic filter")
	}
	return r.end(none)
}

// filter takes a topic filter, which is never empty.
func (r *reader) filter() string {
	f := r.string("topic filter")
	if f == "" && r.err == nil { // [MQTT-4.7.3-1]
		r.fail(MalformedPacket, statement{"MQTT-4.7.3-1", "MQTT-4.7.3-1"}, "topic filter is empty")
	}
	return f
}

func (f *Subscription) options(r *reader) {
	b := r.uint8("subscription options")
	f.QoS = b & 3
	if r.v < V5 {
		if b > 2 { // in 3.1.1 [MQTT-3-8.3-4]
			r.fail(MalformedPacket, statement{v3: "MQTT-3-8.3-4"}, "requested QoS %d, allowed are 0, 1 and 2", b)
		}
		return
	}
	f.NoLocal = b&4 != 0
	f.RetainAsPublished = b&8 != 0
	f.RetainHandling = b >> 4 & 3
	switch {
	case b&0xC0 != 0: // [MQTT-3.8.3-5]
		r.fail(MalformedPacket, statement{v5: "MQTT-3.8.3-5"}, "subscription options %08b, bits 7 and 6 are reserved", b)
	case f.QoS == 3:
		r.fail(ProtocolError, none, "requested QoS 3, allowed are 0, 1 and 2")
	case f.RetainHandling == 3:
		r.fail(ProtocolError, none, "retain handling 3, allowed are 0, 1 and 2")
	case f.NoLocal && strings.HasPrefix(f.Filter, sharePrefix): // [MQTT-3.8.3-4]
		r.fail(ProtocolError, statement{v5: "MQTT-3.8.3-4"}, "no local on the shared subscription %.64q", f.Filter)
	}
}

// Append appends the packet to dst.
func (s *Subscribe) Append(dst []byte, v Version) []byte {
	dst, at := openPacket(dst, SUBSCRIBE, 2)
	dst = appendUint16(dst, s.PacketID)
	if v >= V5 {
		var properties int
		dst, properties = open(dst)
		if s.SubscriptionID != 0 {
			dst = appendVarint(append(dst, byte(subscriptionIdentifier)), int(s.SubscriptionID))
		}
		dst = shut(appendUser(dst, s.User), properties)
	}
	for i := range s.Filters {
		f := &s.Filters[i]
		b := f.QoS
		if v >= V5 {
			if f.NoLocal {
				b |= 4
			}
			if f.RetainAsPublished {
				b |= 8
			}
			b |= f.RetainHandling << 4
		}
		dst = append(appendString(dst, f.Filter), b)
	}
	return shut(dst, at)
}

// Unsubscribe is an UNSUBSCRIBE packet. It owns its memory.
type Unsubscribe struct {
	PacketID uint16
	User     []value.UserProperty
	Filters  []string
}

// Decode reads the body of an UNSUBSCRIBE with fixed header h. It resets u first.
func (u *Unsubscribe) Decode(v Version, h Header, body []byte) error {
	*u = Unsubscribe{}
	if err := h.check(v, UNSUBSCRIBE); err != nil {
		return err
	}
	r := reader{rest: body, v: v, t: UNSUBSCRIBE}
	u.PacketID = r.identifier(publishID)
	if v >= V5 {
		u.User = r.userProperties()
	}
	for len(r.rest) > 0 {
		u.Filters = append(u.Filters, r.filter()) // [MQTT-3.10.3-1]
	}
	if len(u.Filters) == 0 && r.err == nil { // [MQTT-3.10.3-2]
		r.fail(ProtocolError, statement{"MQTT-3.10.3-2", "MQTT-3.10.3-2"}, "no topic filter")
	}
	return r.end(none)
}

// userProperties reads a property block in which only user properties may stand.
func (r *reader) userProperties() (user []value.UserProperty) {
	r.openProperties(r.t)
	for id := r.next(); id != 0; id = r.next() {
		user = r.user(user)
	}
	return user
}

// Append appends the packet to dst.
func (u *Unsubscribe) Append(dst []byte, v Version) []byte {
	dst, at := openPacket(dst, UNSUBSCRIBE, 2)
	dst = appendUint16(dst, u.PacketID)
	if v >= V5 {
		var properties int
		dst, properties = open(dst)
		dst = shut(appendUser(dst, u.User), properties)
	}
	for _, f := range u.Filters {
		dst = appendString(dst, f)
	}
	return shut(dst, at)
}
