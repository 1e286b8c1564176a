package mqtt

import (
	"encoding/binary"

	"maestrohub.io/uns/broker/value"
)

func appendByteProperty(dst []byte, p property, x byte) []byte { return append(dst, byte(p), x) }

func appendFlagProperty(dst []byte, p property, x bool) []byte {
	if x {
		return append(dst, byte(p), 1)
	}
	return append(dst, byte(p), 0)
}

func appendUint16Property(dst []byte, p property, x uint16) []byte {
	return binary.BigEndian.AppendUint16(append(dst, byte(p)), x)
}

func appendUint32Property(dst []byte, p property, x uint32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, byte(p)), x)
}

func appendStringProperty(dst []byte, p property, s string) []byte {
	return appendString(append(dst, byte(p)), s)
}

func appendBytesProperty(dst []byte, p property, b []byte) []byte {
	return appendBytes(append(dst, byte(p)), b)
}

// appendUser appends user properties in their order [MQTT-3.3.2-18].
func appendUser(dst []byte, user []value.UserProperty) []byte {
	for _, u := range user {
		dst = appendStringProperty(dst, userProperty, u.Key)
		dst = appendString(dst, u.Value)
	}
	return dst
}

// appendProblem appends reason string and user properties.
func appendProblem(dst []byte, reason string, user []value.UserProperty) []byte {
	if reason != "" {
		dst = appendStringProperty(dst, reasonString, sayable(reason))
	}
	return appendUser(dst, user)
}

// appendForwarded appends the properties a server forwards unchanged.
func appendForwarded(dst []byte, p *value.Properties) []byte {
	if p.HasPayloadFormat {
		dst = appendByteProperty(dst, payloadFormat, p.PayloadFormat)
	}
	if p.HasContentType {
		dst = appendStringProperty(dst, contentType, p.ContentType)
	}
	if p.ResponseTopic != "" {
		dst = appendStringProperty(dst, responseTopic, p.ResponseTopic)
	}
	if p.CorrelationData != nil {
		dst = appendBytesProperty(dst, correlationData, p.CorrelationData)
	}
	return appendUser(dst, p.User)
}

// forwardedSize returns how many bytes appendForwarded appends.
func forwardedSize(p *value.Properties) int {
	n := 0
	if p.HasPayloadFormat {
		n += 2
	}
	if p.HasContentType {
		n += 3 + len(clip(p.ContentType))
	}
	if p.ResponseTopic != "" {
		n += 3 + len(clip(p.ResponseTopic))
	}
	if p.CorrelationData != nil {
		n += 3 + len(clipBytes(p.CorrelationData))
	}
	for i := range p.User {
		n += 5 + len(clip(p.User[i].Key)) + len(clip(p.User[i].Value))
	}
	return n
}
