package mqtt

import "maestrohub.io/uns/broker/value"

// Connack is a CONNACK packet. Before MQTT 5 it is SessionPresent (3.1.1) and a
// return code; everything from SessionExpiry on is MQTT 5. A nil pointer is an
// absent property.
type Connack struct {
	// SessionPresent is sent as false beside an error [MQTT-3.2.2-6].
	SessionPresent bool
	Code           ReasonCode

	// SessionExpiry is the Session Expiry Interval in use, in seconds.
	SessionExpiry *uint32
	// ReceiveMaximum is 65535 if absent. Append takes 0 for absent.
	ReceiveMaximum uint16
	// MaximumQoS is 0 or 1; absent means 2 [MQTT-3.2.2-9].
	MaximumQoS      *byte
	RetainAvailable *bool
	// MaximumPacketSize in bytes, 0 if absent: no limit.
	MaximumPacketSize uint32
	// AssignedClientID is empty if absent [MQTT-3.2.2-16].
	AssignedClientID string
	// TopicAliasMaximum is 0 if absent: no aliases.
	TopicAliasMaximum uint16
	ReasonString      string
	User              []value.UserProperty

	WildcardAvailable, SubscriptionIDsAvailable, SharedAvailable *bool

	// ServerKeepAlive in seconds replaces the client's Keep Alive [MQTT-3.1.2-21].
	ServerKeepAlive *uint16

	ResponseInformation, ServerReference string

	// AuthMethod is empty if absent, AuthData nil.
	AuthMethod string
	AuthData   []byte
}

// Decode reads the body of a CONNACK with fixed header h. It resets c first.
func (c *Connack) Decode(v Version, h Header, body []byte) error {
	*c = Connack{ReceiveMaximum: 65535}
	if err := h.check(v, CONNACK); err != nil {
		return err
	}
	r := reader{rest: body, v: v, t: CONNACK}
	flags := r.uint8("acknowledge flags")
	if v == V31 {
		flags = 0 // a reserved byte
	}
	if flags > 1 { // [MQTT-3.2.2-1]
		r.fail(MalformedPacket, statement{v5: "MQTT-3.2.2-1"}, "acknowledge flags %08b, bits 7 to 1 are reserved", flags)
	}
	c.SessionPresent = flags&1 != 0
	if v < V5 {
		code := r.uint8("return code")
		if int(code) < len(connectReturns) {
			c.Code = connectReturns[code]
		} else {
			r.fail(ProtocolError, none, "return code %d, allowed are 0 to 5", code)
		}
	} else {
		c.Code = r.reason(statement{v5: "MQTT-3.2.2-8"}) // [MQTT-3.2.2-8]
		c.decodeProperties(&r)
	}
	if c.SessionPresent && c.Code != Success { // [MQTT-3.2.2-6], in 3.1.1 [MQTT-3.2.2-4]
		r.fail(ProtocolError, statement{"MQTT-3.2.2-6", "MQTT-3.2.2-4"}, "session present beside %s", c.Code.Error())
	}
	return r.end(none)
}

func (c *Connack) decodeProperties(r *reader) {
	r.openProperties(CONNACK)
	for id := r.next(); id != 0; id = r.next() {
		switch id {
		case sessionExpiry:
			c.SessionExpiry = new(r.uint32(id.String()))
		case receiveMaximum:
			c.ReceiveMaximum = r.nonzero(id)
		case maximumQoS:
			qos := r.uint8(id.String())
			if qos > 1 {
				r.fail(ProtocolError, none, "%s is %d, allowed are 0 and 1", id, qos)
			}
			c.MaximumQoS = &qos
		case retainAvailable:
			c.RetainAvailable = new(r.flag(id.String()))
		case maximumPacketSize:
			c.MaximumPacketSize = r.packetSize()
		case assignedClientID:
			c.AssignedClientID = r.string(id.String())
		case topicAliasMaximum:
			c.TopicAliasMaximum = r.uint16(id.String())
		case reasonString:
			c.ReasonString = r.string(id.String())
		case userProperty:
			c.User = r.user(c.User)
		case wildcardAvailable:
			c.WildcardAvailable = new(r.flag(id.String()))
		case identifiersAvailable:
			c.SubscriptionIDsAvailable = new(r.flag(id.String()))
		case sharedAvailable:
			c.SharedAvailable = new(r.flag(id.String()))
		case serverKeepAlive:
			c.ServerKeepAlive = new(r.uint16(id.String()))
		case responseInformation:
			c.ResponseInformation = r.string(id.String())
		case serverReference:
			c.ServerReference = r.string(id.String())
		case authMethod:
			c.AuthMethod = r.string(id.String())
		case authData:
			c.AuthData = r.copied(id.String())
		}
	}
}

// Append appends the packet to dst.
func (c *Connack) Append(dst []byte, v Version) []byte {
	var flags byte
	if c.SessionPresent && c.Code < 0x80 && v != V31 { // [MQTT-3.2.2-6], in 3.1.1 [MQTT-3.2.2-4]
		flags = 1
	}
	if v < V5 {
		return append(dst, byte(CONNACK)<<4, 2, flags, c.Code.ConnectReturn())
	}
	dst, at := openPacket(dst, CONNACK, 0)
	dst = append(dst, flags, byte(c.Code.listed(CONNACK)))
	dst, properties := open(dst)
	dst = c.appendProperties(dst)
	return shut(shut(dst, properties), at)
}

func (c *Connack) appendProperties(dst []byte) []byte {
	if c.SessionExpiry != nil {
		dst = appendUint32Property(dst, sessionExpiry, *c.SessionExpiry)
	}
	if c.ReceiveMaximum != 0 && c.ReceiveMaximum != 65535 {
		dst = appendUint16Property(dst, receiveMaximum, c.ReceiveMaximum)
	}
	if c.MaximumQoS != nil && *c.MaximumQoS < 2 {
		dst = appendByteProperty(dst, maximumQoS, *c.MaximumQoS)
	}
	if c.MaximumPacketSize != 0 {
		dst = appendUint32Property(dst, maximumPacketSize, c.MaximumPacketSize)
	}
	if c.TopicAliasMaximum != 0 {
		dst = appendUint16Property(dst, topicAliasMaximum, c.TopicAliasMaximum)
	}
	if c.ServerKeepAlive != nil {
		dst = appendUint16Property(dst, serverKeepAlive, *c.ServerKeepAlive)
	}
	for _, switched := range [...]struct {
		p  property
		on *bool
	}{{retainAvailable, c.RetainAvailable}, {wildcardAvailable, c.WildcardAvailable},
		{identifiersAvailable, c.SubscriptionIDsAvailable}, {sharedAvailable, c.SharedAvailable}} {
		if switched.on != nil {
			dst = appendFlagProperty(dst, switched.p, *switched.on)
		}
	}
	for _, text := range [...]struct {
		p property
		s string
	}{{assignedClientID, c.AssignedClientID}, {responseInformation, c.ResponseInformation},
		{serverReference, c.ServerReference}, {authMethod, c.AuthMethod}} {
		if text.s != "" {
			dst = appendStringProperty(dst, text.p, text.s)
		}
	}
	if c.AuthData != nil {
		dst = appendBytesProperty(dst, authData, c.AuthData)
	}
	return appendProblem(dst, c.ReasonString, c.User)
}

// AppendLimited is Append within max bytes; see the package documentation.
// [MQTT-3.2.2-19], [MQTT-3.2.2-20]
func (c *Connack) AppendLimited(dst []byte, v Version, max uint32) []byte {
	return appendLimited(c, dst, v, max)
}

func (c *Connack) optional() (*string, *[]value.UserProperty) { return &c.ReasonString, &c.User }
