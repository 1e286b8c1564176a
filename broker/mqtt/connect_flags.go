package mqtt

// Connect flags, MQTT 5 figure 3-4.
const (
	flagReserved = 1 << iota
	flagCleanStart
	flagWill
	_
	_
	flagWillRetain
	flagPassword
	flagUsername
)

// checkConnectFlags checks the flags against each other. MQTT 3.1 disregards the
// reserved one and, without a will, those of the will.
func checkConnectFlags(v Version, flags byte) error {
	bad := func(code ReasonCode, v5, v3, detail string) error {
		return fail(v, CONNECT, code, statement{v5, v3}, "%s (connect flags %08b)", detail, flags)
	}
	qos := flags >> 3 & 3
	switch {
	case flags&flagReserved != 0 && v != V31: // [MQTT-3.1.2-3]
		return bad(MalformedPacket, "MQTT-3.1.2-3", "MQTT-3.1.2-3", "the reserved flag is set")
	case flags&flagWill == 0 && qos != 0 && v != V31: // [MQTT-3.1.2-11], in 3.1.1 [MQTT-3.1.2-13]
		return bad(MalformedPacket, "MQTT-3.1.2-11", "MQTT-3.1.2-13", "will QoS without a will")
	case flags&flagWill != 0 && qos == 3: // [MQTT-3.1.2-12], in 3.1.1 [MQTT-3.1.2-14]
		return bad(MalformedPacket, "MQTT-3.1.2-12", "MQTT-3.1.2-14", "will QoS 3, allowed are 0, 1 and 2")
	case flags&flagWill == 0 && flags&flagWillRetain != 0 && v != V31: // [MQTT-3.1.2-13], in 3.1.1 [MQTT-3.1.2-15]
		return bad(MalformedPacket, "MQTT-3.1.2-13", "MQTT-3.1.2-15", "will retain without a will")
	case flags&flagPassword != 0 && flags&flagUsername == 0 && v < V5: // in 3.1.1 [MQTT-3.1.2-22]
		return bad(ProtocolError, "", "MQTT-3.1.2-22", "password without a user name")
	}
	return nil
}

// flags returns the connect flags to send.
func (c *Connect) flags() byte {
	var b byte
	set := func(on bool, flag byte) {
		if on {
			b |= flag
		}
	}
	set(c.CleanStart, flagCleanStart)
	set(c.HasUsername, flagUsername)
	set(c.HasPassword, flagPassword)
	if c.Will != nil {
		b |= flagWill | c.Will.QoS<<3
		set(c.Will.Retain, flagWillRetain)
	}
	return b
}
