package mqtt

import (
	"unicode/utf8"

	"maestrohub.io/uns/broker/value"
)

// Connect is a CONNECT packet. It owns its memory.
type Connect struct {
	// Version of the protocol. After a decode that failed it is the version whose
	// CONNACK the sender can read, or 0 if the packet did not get as far as that.
	Version Version
	// CleanStart is Clean Session before MQTT 5.
	CleanStart bool
	// KeepAlive in seconds, 0 for none.
	KeepAlive uint16
	ClientID  string
	Will      *Will
	// Username is valid if HasUsername, Password if HasPassword.
	Username    string
	HasUsername bool
	Password    []byte
	HasPassword bool

	// SessionExpiry is the Session Expiry Interval in seconds, 0 if absent,
	// 0xFFFFFFFF for never.
	SessionExpiry uint32
	// ReceiveMaximum is 65535 if absent. Append takes 0 for absent.
	ReceiveMaximum uint16
	// MaximumPacketSize in bytes, 0 if absent: no limit.
	MaximumPacketSize uint32
	// TopicAliasMaximum is 0 if absent: no aliases.
	TopicAliasMaximum uint16
	// RequestResponseInformation is false if absent [MQTT-3.1.2-28].
	RequestResponseInformation bool
	// RequestProblemInformation is true if absent [MQTT-3.1.2-29]; Append writes a
	// false one.
	RequestProblemInformation bool
	// AuthMethod is valid if HasAuthMethod. AuthData is nil if absent.
	AuthMethod    string
	HasAuthMethod bool
	AuthData      []byte
	User          []value.UserProperty
}

// Decode reads the body of a CONNECT with fixed header h. It resets c and sets
// Version first, so that a caller can answer a version it does not have
// (UnsupportedProtocolVersion). Of the other errors before MQTT 5 only
// ClientIdentifierNotValid has an answer; the rest close the connection without
// one [MQTT-3.1.4-1].
func (c *Connect) Decode(h Header, body []byte) error {
	*c = Connect{ReceiveMaximum: 65535, RequestProblemInformation: true}
	r := reader{rest: body, v: V5, t: CONNECT}
	if h.Type != CONNECT {
		return fail(V5, h.Type, ProtocolError, statement{v5: "MQTT-3.1.0-1"}, "unexpected, want CONNECT")
	}
	if err := c.decodeVersion(&r); err != nil {
		return err
	}
	if err := h.Validate(c.Version); err != nil {
		return err
	}
	flags := r.uint8("connect flags")
	if err := checkConnectFlags(c.Version, flags); err != nil && r.err == nil {
		return err
	}
	c.CleanStart = flags&flagCleanStart != 0
	c.KeepAlive = r.uint16("keep alive")
	if c.Version >= V5 {
		c.decodeProperties(&r)
	}
	c.decodePayload(&r, flags)
	switch {
	case flags&flagUsername == 0: // [MQTT-3.1.2-16], in 3.1.1 [MQTT-3.1.2-18]
		return r.end(statement{"MQTT-3.1.2-16", "MQTT-3.1.2-18"})
	case flags&flagPassword == 0: // [MQTT-3.1.2-18], in 3.1.1 [MQTT-3.1.2-20]
		return r.end(statement{"MQTT-3.1.2-18", "MQTT-3.1.2-20"})
	default:
		return r.end(none)
	}
}

func (c *Connect) decodeVersion(r *reader) error {
	name := string(r.utf8("protocol name"))
	level := r.uint8("protocol version")
	if r.err != nil {
		return r.err
	}
	// A bridge marks its level with the highest bit and reads the CONNACK of the
	// level below it.
	c.Version = V311
	if level >= byte(V5) && level < 0x80 {
		c.Version = V5
	}
	r.v = c.Version
	switch {
	case name == "MQTT" && (level == byte(V311) || level == byte(V5)):
	case name == "MQIsdp" && level == byte(V31):
		c.Version, r.v = V31, V31
	case name != "MQTT" && name != "MQIsdp": // [MQTT-3.1.2-1]
		return fail(r.v, CONNECT, UnsupportedProtocolVersion, statement{"MQTT-3.1.2-1", "MQTT-3.1.2-1"}, "protocol name %.64q, allowed are MQTT and MQIsdp", name)
	default: // [MQTT-3.1.2-2]
		return fail(r.v, CONNECT, UnsupportedProtocolVersion, statement{"MQTT-3.1.2-2", "MQTT-3.1.2-2"}, "protocol %s version %d, allowed are MQTT 4 and 5 and MQIsdp 3", name, level)
	}
	return nil
}

func (c *Connect) decodeProperties(r *reader) {
	r.openProperties(CONNECT)
	for id := r.next(); id != 0; id = r.next() {
		switch id {
		case sessionExpiry:
			c.SessionExpiry = r.uint32(id.String())
		case receiveMaximum:
			c.ReceiveMaximum = r.nonzero(id)
		case maximumPacketSize:
			c.MaximumPacketSize = r.packetSize()
		case topicAliasMaximum:
			c.TopicAliasMaximum = r.uint16(id.String())
		case requestResponse:
			c.RequestResponseInformation = r.flag(id.String())
		case requestProblem:
			c.RequestProblemInformation = r.flag(id.String())
		case authMethod:
			c.AuthMethod, c.HasAuthMethod = r.string(id.String()), true
		case authData:
			c.AuthData = r.copied(id.String())
		case userProperty:
			c.User = r.user(c.User)
		}
	}
	if r.err == nil && c.AuthData != nil && !c.HasAuthMethod {
		r.fail(ProtocolError, none, "%s without %s", authData, authMethod)
	}
}

// decodePayload reads the payload in its fixed order [MQTT-3.1.3-1].
func (c *Connect) decodePayload(r *reader, flags byte) {
	r.need("client identifier", statement{"MQTT-3.1.3-3", "MQTT-3.1.3-3"})
	c.ClientID = r.string("client identifier") // [MQTT-3.1.3-4]
	c.checkClientID(r)
	if flags&flagWill != 0 {
		c.Will = r.will(flags>>3&3, flags&flagWillRetain != 0)
	}
	// MQTT 3.1 lets the remaining length overrule these two flags.
	lenient := c.Version == V31
	if flags&flagUsername != 0 && !(lenient && len(r.rest) == 0) {
		r.need("user name", statement{"MQTT-3.1.2-17", "MQTT-3.1.2-19"})
		c.Username, c.HasUsername = r.string("user name"), true // [MQTT-3.1.3-12], in 3.1.1 [MQTT-3.1.3-11]
	}
	if flags&flagPassword != 0 && !(lenient && len(r.rest) == 0) {
		r.need("password", statement{"MQTT-3.1.2-19", "MQTT-3.1.2-21"})
		c.Password, c.HasPassword = r.copied("password"), true
	}
}

func (c *Connect) checkClientID(r *reader) {
	if r.err != nil {
		return
	}
	switch n := utf8.RuneCountInString(c.ClientID); {
	case c.Version == V31 && (n < 1 || n > 23):
		r.fail(ClientIdentifierNotValid, none, "client identifier of %d characters, MQTT 3.1 allows 1 to 23", n)
	case c.Version == V311 && n == 0 && !c.CleanStart: // in 3.1.1 [MQTT-3.1.3-7], [MQTT-3.1.3-8]
		r.fail(ClientIdentifierNotValid, statement{v3: "MQTT-3.1.3-8"}, "client identifier is empty without clean session")
	}
}

// need fails if a field that a flag or the packet promises is not there at all.
func (r *reader) need(field string, s statement) {
	if len(r.rest) == 0 && r.err == nil {
		r.fail(MalformedPacket, s, "%s is missing", field)
	}
}

// Append appends the packet to dst as version v; c.Version is not looked at.
func (c *Connect) Append(dst []byte, v Version) []byte {
	dst, at := openPacket(dst, CONNECT, 0)
	if v == V31 {
		dst = appendString(dst, "MQIsdp")
	} else {
		dst = appendString(dst, "MQTT")
	}
	dst = append(dst, byte(v), c.flags())
	dst = appendUint16(dst, c.KeepAlive)
	if v >= V5 {
		dst = c.appendProperties(dst)
	}
	dst = appendString(dst, c.ClientID)
	if c.Will != nil {
		dst = c.Will.append(dst, v)
	}
	if c.HasUsername {
		dst = appendString(dst, c.Username)
	}
	if c.HasPassword {
		dst = appendBytes(dst, c.Password)
	}
	return shut(dst, at)
}

func (c *Connect) appendProperties(dst []byte) []byte {
	dst, at := open(dst)
	if c.SessionExpiry != 0 {
		dst = appendUint32Property(dst, sessionExpiry, c.SessionExpiry)
	}
	if c.ReceiveMaximum != 0 && c.ReceiveMaximum != 65535 {
		dst = appendUint16Property(dst, receiveMaximum, c.ReceiveMaximum)
	}
	if c.MaximumPacketSize != 0 {
		dst = appendUint32Property(dst, maximumPacketSize, c.MaximumPacketSize)
	}
	if c.TopicAliasMaximum != 0 {
		dst = appendUint16Property(dst, topicAliasMaximum, c.TopicAliasMaximum)
	}
	if c.RequestResponseInformation {
		dst = appendFlagProperty(dst, requestResponse, true)
	}
	if !c.RequestProblemInformation {
		dst = appendFlagProperty(dst, requestProblem, false)
	}
	if c.HasAuthMethod {
		dst = appendStringProperty(dst, authMethod, c.AuthMethod)
	}
	if c.AuthData != nil {
		dst = appendBytesProperty(dst, authData, c.AuthData)
	}
	return shut(appendUser(dst, c.User), at)
}
