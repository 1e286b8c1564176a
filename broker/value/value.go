package value

import "time"

// Quality is the trustworthiness of a value as OPC DA grades it, 0 to 255: the
// two highest bits are the grade (3 good, 1 uncertain, 0 bad), the rest is the
// source's detail and is stored as it came.
type Quality uint8

// The three grades, as the payload's "quality" names them.
const (
	Bad       Quality = 0
	Uncertain Quality = 64
	Good      Quality = 192
)

// Grade returns the quality with its detail bits cleared: Bad, Uncertain or
// Good. The grade OPC DA leaves undefined (2) counts as Uncertain.
func (q Quality) Grade() Quality {
	switch q >> 6 {
	case 3:
		return Good
	case 0:
		return Bad
	default:
		return Uncertain
	}
}

// String returns the grade's name: "good", "uncertain" or "bad".
func (q Quality) String() string {
	switch q.Grade() {
	case Good:
		return "good"
	case Bad:
		return "bad"
	default:
		return "uncertain"
	}
}

// Kind says how Body is to be read.
type Kind uint8

const (
	// JSON: Body is one JSON value.
	JSON Kind = iota
	// Opaque: Body is bytes the broker does not look into; the topic's schema
	// said so.
	Opaque
)

// UserProperty is one MQTT 5 user property. Order and repetition are kept
// [MQTT-3.3.2-17], [MQTT-3.3.2-18].
type UserProperty struct {
	Key, Value string
}

// Properties are the MQTT 5 PUBLISH properties a server forwards unchanged. The
// zero value is a PUBLISH without any.
type Properties struct {
	// PayloadFormat is the Payload Format Indicator (0 or 1), valid if
	// HasPayloadFormat [MQTT-3.3.2-4].
	PayloadFormat    byte
	HasPayloadFormat bool
	// ContentType, valid if HasContentType: a present one may be empty
	// [MQTT-3.3.2-20].
	ContentType    string
	HasContentType bool
	// ResponseTopic, empty if absent [MQTT-3.3.2-15].
	ResponseTopic string
	// CorrelationData, nil if absent [MQTT-3.3.2-16].
	CorrelationData []byte
	// User properties in the order received.
	User []UserProperty
}

// Value is one data point on its way through the broker. Treat every field as
// read-only once the value has been handed on; the slices are shared.
type Value struct {
	// Workspace is the slug of the workspace the value belongs to.
	Workspace string
	// Name is the full name of the live copy's topic,
	// <version>/<workspace>/<topic>; Topic is its part below the workspace.
	Name, Topic string
	// Publisher is the API client whose inbox the value came through.
	Publisher string
	// ClientID is the MQTT client identifier it was published under, for No
	// Local [MQTT-3.8.3-3]; empty for a REST write.
	ClientID string

	// Timestamp is the value's own time in nanoseconds since the Unix epoch: the
	// device's if Timed, else the moment of admission.
	Timestamp int64
	// Timed says that the device gave the timestamp, so that the same value sent
	// twice is stored once. A value without one carries a RowID instead, made at
	// admission and kept through every retry of its batch.
	Timed bool
	// RowID tells apart values the device did not time; 0 if Timed.
	RowID uint64
	// Received is the moment of admission, nanoseconds since the Unix epoch.
	Received int64
	Quality  Quality
	Kind     Kind

	// Payload is the application message exactly as published. Body is the value
	// inside it: all of it, or the "value" member of an envelope, aliasing
	// Payload.
	Payload, Body []byte
	Properties    Properties

	// QoS is the live copy's: the greater of the device's and liveMirror.qos.
	QoS byte
	// Retain says that the topic's binding retains its last value: the live copy
	// goes out as a retained message.
	Retain bool
	// Expires is the instant the message expires, nanoseconds since the Unix
	// epoch; 0 means never (MQTT 5, 3.3.2.3.3).
	Expires int64

	// Position orders the stored values of a workspace: increasing, given by the
	// historian, the same again for a value it already had. 0: not stored.
	Position uint64

	// Shares names, per shared subscription, the session the publishing replica chose.
	Shares []Share
	// Redirected says that the record is for the sessions named in Shares alone:
	// a message chosen again after its first member was lost, which everybody
	// else has already had.
	Redirected bool
}

// Share is the choice of one member of a shared subscription for one value.
type Share struct {
	// Key is the share name and the filter: "name/filter".
	Key string
	// Session is the MQTT client identifier of the chosen member.
	Session string
}

// Time returns Timestamp as a time in UTC.
func (v *Value) Time() time.Time { return time.Unix(0, v.Timestamp).UTC() }

// Expired reports whether the message has expired at now, in nanoseconds since
// the Unix epoch.
func (v *Value) Expired(now int64) bool { return v.Expires != 0 && now >= v.Expires }

// ExpirySeconds returns the Message Expiry Interval to forward at now: what is
// left of it, rounded up so that it never becomes 0 while the message lives
// [MQTT-3.3.2-6]. ok is false if the message does not expire.
func (v *Value) ExpirySeconds(now int64) (seconds uint32, ok bool) {
	if v.Expires == 0 {
		return 0, false
	}
	left := v.Expires - now
	if left <= 0 {
		return 0, true
	}
	return uint32((left + int64(time.Second) - 1) / int64(time.Second)), true
}
