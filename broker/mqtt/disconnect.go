package mqtt

import "maestrohub.io/uns/broker/value"

// Disconnect is a DISCONNECT packet. Before MQTT 5 it is empty and only a client
// sends it.
type Disconnect struct {
	Code ReasonCode
	// SessionExpiry is the Session Expiry Interval in seconds, valid if
	// HasSessionExpiry. A server never sends it [MQTT-3.14.2-2].
	SessionExpiry    uint32
	HasSessionExpiry bool
	ReasonString     string
	User             []value.UserProperty
	ServerReference  string
}

// Decode reads the body of a DISCONNECT with fixed header h. It resets d first.
func (d *Disconnect) Decode(v Version, h Header, body []byte) error {
	*d = Disconnect{}
	if err := h.check(v, DISCONNECT); err != nil {
		return err
	}
	r := reader{rest: body, v: v, t: DISCONNECT}
	// A code of 0 may be left out, and so may the property length after a code.
	if v >= V5 && len(r.rest) > 0 {
		d.Code = r.reason(statement{v5: "MQTT-3.14.2-1"}) // [MQTT-3.14.2-1]
		if len(r.rest) > 0 {
			d.properties(&r)
		}
	}
	return r.end(none)
}

func (d *Disconnect) properties(r *reader) {
	r.openProperties(DISCONNECT)
	for id := r.next(); id != 0; id = r.next() {
		switch id {
		case sessionExpiry:
			d.SessionExpiry, d.HasSessionExpiry = r.uint32(id.String()), true
		case reasonString:
			d.ReasonString = r.string(id.String())
		case userProperty:
			d.User = r.user(d.User)
		case serverReference:
			d.ServerReference = r.string(id.String())
		}
	}
}

// Append appends the packet to dst.
func (d *Disconnect) Append(dst []byte, v Version) []byte {
	code := d.Code.listed(DISCONNECT)
	bare := !d.HasSessionExpiry && d.ReasonString == "" && len(d.User) == 0 && d.ServerReference == ""
	switch {
	case v < V5 || bare && code == NormalDisconnection:
		return append(dst, byte(DISCONNECT)<<4, 0)
	case bare:
		return append(dst, byte(DISCONNECT)<<4, 1, byte(code))
	}
	dst, at := openPacket(dst, DISCONNECT, 0)
	dst, properties := open(append(dst, byte(code)))
	if d.HasSessionExpiry {
		dst = appendUint32Property(dst, sessionExpiry, d.SessionExpiry)
	}
	if d.ServerReference != "" {
		dst = appendStringProperty(dst, serverReference, d.ServerReference)
	}
	dst = appendProblem(dst, d.ReasonString, d.User)
	return shut(shut(dst, properties), at)
}

// AppendLimited is Append within max bytes; see the package documentation.
// [MQTT-3.14.2-3], [MQTT-3.14.2-4]
func (d *Disconnect) AppendLimited(dst []byte, v Version, max uint32) []byte {
	return appendLimited(d, dst, v, max)
}

func (d *Disconnect) optional() (*string, *[]value.UserProperty) { return &d.ReasonString, &d.User }
