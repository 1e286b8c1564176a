package scenario

import (
	"net/netip"
	"strconv"
	"strings"

	"maestrohub.io/uns/broker/mqtt"
)

// Target is a broker and how to speak to it.
type Target struct {
	Name     string
	Address  netip.AddrPort
	Version  mqtt.Version // 0 means V311
	Username string
	Password string
	// PublishTopic and SubscribeTopic are templates: {i} is a number from 0, or +
	// in a filter for all of them. They differ where a broker takes values in on
	// one topic and gives them out on another.
	PublishTopic   string
	SubscribeTopic string
	PID            int // of the broker, for CPU and memory; 0: not measured
}

func (t *Target) version() mqtt.Version {
	if t.Version == 0 {
		return mqtt.V311
	}
	return t.Version
}

// publishTopic returns the topic number i is published to.
func (t *Target) publishTopic(i int) string {
	return strings.ReplaceAll(t.PublishTopic, "{i}", strconv.Itoa(i))
}

// filter returns the filter under which the values of topic i arrive.
func (t *Target) filter(i int) string {
	return strings.ReplaceAll(t.SubscribeTopic, "{i}", strconv.Itoa(i))
}

// filterAll returns the filter under which the values of all topics arrive.
func (t *Target) filterAll() string {
	return strings.ReplaceAll(t.SubscribeTopic, "{i}", "+")
}

// connect returns the CONNECT of a client. A persistent one keeps its session
// for an hour after it leaves.
func (t *Target) connect(id string, persistent bool) []byte {
	c := mqtt.Connect{
		Version: t.version(), ClientID: id, CleanStart: !persistent,
		Username: t.Username, HasUsername: t.Username != "",
		Password: []byte(t.Password), HasPassword: t.Password != "",
		ReceiveMaximum: 65535, RequestProblemInformation: true,
	}
	if persistent && t.version() == mqtt.V5 {
		c.SessionExpiry = 3600
	}
	return c.Append(nil, t.version())
}

// subscribe returns a SUBSCRIBE with packet id 1.
func (t *Target) subscribe(filter string, qos byte) []byte {
	s := mqtt.Subscribe{PacketID: 1, Filters: []mqtt.Subscription{{Filter: filter, QoS: qos}}}
	return s.Append(nil, t.version())
}

// disconnect returns the DISCONNECT of an orderly end.
func (t *Target) disconnect() []byte {
	d := mqtt.Disconnect{}
	return d.Append(nil, t.version())
}
