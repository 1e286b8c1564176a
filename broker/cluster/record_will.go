package cluster

import (
	"encoding/binary"

	"maestrohub.io/uns/broker/value"
)

// Will is the record of one connection's Last Will in state.SessionWill, keyed
// by WillKey. It is written before the CONNACK and deleted when the will was sent
// or is dead. It waits from when its incarnation has ended, which its owner may not
// have been able to write anywhere; By is set while somebody is sending it.
type Will struct {
	Client      string
	Connection  ID
	Incarnation Incarnation
	// Identity declared it; its grants decide again when it is sent.
	Identity, Workspace string
	// Delay is the Will Delay Interval, Expiry the Session Expiry Interval, in
	// seconds.
	Delay, Expiry uint32

	Topic         string
	Payload       []byte
	QoS           byte
	Retain        bool
	MessageExpiry uint32
	HasExpiry     bool
	Properties    value.Properties

	// By is the incarnation that began to send it; zero: nobody.
	By Incarnation
	// Timestamp is the value's, ns since 1970, set when the first sender began
	// and kept by every later one, so that the historian stores it once.
	Timestamp int64
}

// WillKey is the key of a connection's will.
func WillKey(connection ID) string { return connection.String() }

// RowID is the row id of the will's value, the same for every sender.
func (w *Will) RowID() uint64 { return binary.BigEndian.Uint64(w.Connection[:8]) | 1 }

// MessageID is the id its append to the session log goes under, the same for
// every sender.
func (w *Will) MessageID() string { return "will-" + w.Connection.String() }

// Encode returns the record in the floor's format.
func (w *Will) Encode(floor Format) []byte {
	a := record(floor)
	a.string(w.Client)
	a.id(w.Connection)
	a.incarnation(w.Incarnation)
	a.string(w.Identity)
	a.string(w.Workspace)
	a.uint(uint64(w.Delay))
	a.uint(uint64(w.Expiry))
	p := &w.Properties
	a.flags(w.Retain, w.HasExpiry, p.HasPayloadFormat, p.HasContentType, p.CorrelationData != nil)
	a.byte(w.QoS)
	a.string(w.Topic)
	a.bytes(w.Payload)
	a.uint(uint64(w.MessageExpiry))
	a.byte(p.PayloadFormat)
	a.string(p.ContentType)
	a.string(p.ResponseTopic)
	a.bytes(p.CorrelationData)
	a.uint(uint64(len(p.User)))
	for _, u := range p.User {
		a.string(u.Key)
		a.string(u.Value)
	}
	a.incarnation(w.By)
	a.int(w.Timestamp)
	return a.b
}

// DecodeWill reads a Will.
func DecodeWill(b []byte) (*Will, error) {
	const seconds = 1<<32 - 1
	p, w := parse("will record", b), &Will{}
	w.Client = p.string("client")
	w.Connection = p.id("connection")
	w.Incarnation = p.incarnation("incarnation")
	w.Identity = p.string("identity")
	w.Workspace = p.string("workspace")
	w.Delay = uint32(p.limited("delay", seconds))
	w.Expiry = uint32(p.limited("session expiry", seconds))
	f := p.flags("flags", 5)
	w.Retain, w.HasExpiry = f[0], f[1]
	w.Properties.HasPayloadFormat, w.Properties.HasContentType = f[2], f[3]
	w.QoS = p.enum("QoS", 2)
	w.Topic = p.string("topic")
	w.Payload = p.bytes("payload")
	w.MessageExpiry = uint32(p.limited("message expiry", seconds))
	w.Properties.PayloadFormat = p.enum("payload format", 1)
	w.Properties.ContentType = p.string("content type")
	w.Properties.ResponseTopic = p.string("response topic")
	w.Properties.CorrelationData = p.bytes("correlation data")
	if f[4] && w.Properties.CorrelationData == nil {
		w.Properties.CorrelationData = []byte{}
	} else if !f[4] && w.Properties.CorrelationData != nil {
		p.fail("correlation data")
	}
	for range p.count("user properties", 2) {
		w.Properties.User = append(w.Properties.User, value.UserProperty{Key: p.string("user property"), Value: p.string("user property")})
	}
	w.By = p.incarnation("by")
	w.Timestamp = p.int("timestamp")
	if err := p.end(); err != nil {
		return nil, err
	}
	return w, nil
}
