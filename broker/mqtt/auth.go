package mqtt

import "maestrohub.io/uns/broker/value"

// Auth is an AUTH packet, MQTT 5 only. It owns its memory.
type Auth struct {
	Code ReasonCode
	// Method is the Authentication Method; empty only in a packet without any
	// property, which stands for success.
	Method string
	// Data is the Authentication Data, nil if absent.
	Data         []byte
	ReasonString string
	User         []value.UserProperty
}

// Decode reads the body of an AUTH with fixed header h. It resets a first.
func (a *Auth) Decode(v Version, h Header, body []byte) error {
	*a = Auth{}
	if err := h.check(v, AUTH); err != nil {
		return err
	}
	if len(body) == 0 {
		return nil // success without properties
	}
	r := reader{rest: body, v: v, t: AUTH}
	a.Code = r.reason(statement{v5: "MQTT-3.15.2-1"}) // [MQTT-3.15.2-1]
	r.openProperties(AUTH)
	for id := r.next(); id != 0; id = r.next() {
		switch id {
		case authMethod:
			a.Method = r.string(id.String())
		case authData:
			a.Data = r.copied(id.String())
		case reasonString:
			a.ReasonString = r.string(id.String())
		case userProperty:
			a.User = r.user(a.User)
		}
	}
	// Success without any property is the empty packet spelled out.
	if r.err == nil && !r.has(authMethod) && (a.Code != Success || r.seen != 0) {
		r.fail(ProtocolError, none, "%s is missing", authMethod)
	}
	return r.end(none)
}

// Append appends the packet to dst. Nothing is appended before MQTT 5, which has
// no AUTH, and for a failure, which CONNACK or DISCONNECT tells.
func (a *Auth) Append(dst []byte, v Version) []byte {
	if v < V5 || a.Code >= 0x80 {
		return dst
	}
	code := a.Code.listed(AUTH)
	if code == Success && a.Method == "" && a.Data == nil && a.ReasonString == "" && len(a.User) == 0 {
		return append(dst, byte(AUTH)<<4, 0)
	}
	dst, at := openPacket(dst, AUTH, 0)
	dst, properties := open(append(dst, byte(code)))
	dst = appendStringProperty(dst, authMethod, a.Method)
	if a.Data != nil {
		dst = appendBytesProperty(dst, authData, a.Data)
	}
	dst = appendProblem(dst, a.ReasonString, a.User)
	return shut(shut(dst, properties), at)
}

// AppendLimited is Append within max bytes; see the package documentation.
// [MQTT-3.15.2-2], [MQTT-3.15.2-3]
func (a *Auth) AppendLimited(dst []byte, v Version, max uint32) []byte {
	return appendLimited(a, dst, v, max)
}

func (a *Auth) optional() (*string, *[]value.UserProperty) { return &a.ReasonString, &a.User }
