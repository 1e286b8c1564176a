package mqtt

import "fmt"

// Error is why a packet was not decoded. Every decode failure is one.
type Error struct {
	// Code is what MQTT 5 has for it in CONNACK or DISCONNECT: MalformedPacket if
	// the packet cannot be parsed, ProtocolError if it holds data the protocol
	// does not allow, or the specific code the standard names.
	Code ReasonCode
	// Statement is the broken statement's id without brackets, "MQTT-1.5.4-2", of
	// the standard of the packet's version (for 3.1 that of 3.1.1); empty where
	// the standard gives the rule no id.
	Statement string
	// Detail names the packet, the field, the value and what is allowed. It is
	// plain text and may be sent as a reason string.
	Detail string
}

// Error returns the code, the detail and the statement id.
func (e *Error) Error() string {
	if e.Statement == "" {
		return fmt.Sprintf("%s: %s", e.Code.Error(), e.Detail)
	}
	return fmt.Sprintf("%s: %s [%s]", e.Code.Error(), e.Detail, e.Statement)
}

// Unwrap returns the reason code.
func (e *Error) Unwrap() error { return e.Code }

// statement is one rule's id in the two standards; empty where it has none.
type statement struct{ v5, v3 string }

func (s statement) id(v Version) string {
	if v >= V5 {
		return s.v5
	}
	return s.v3
}

// none is the statement of a rule the standards give no id.
var none statement

func fail(v Version, t PacketType, code ReasonCode, s statement, format string, args ...any) error {
	return &Error{Code: code, Statement: s.id(v), Detail: t.String() + ": " + fmt.Sprintf(format, args...)}
}
