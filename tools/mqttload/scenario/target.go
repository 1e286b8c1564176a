package scenario

import (
	"context"
	"errors"
	"io/fs"
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
	// Others are further addresses of the same broker: subscribers, and clients that
	// come and go, take turns over all of them; publishers use Address.
	Others []netip.AddrPort
	// Fail kills the process behind Address with kill -9. Where the broker has no other,
	// it also starts it again at once, as whatever watches over it would, and returns when
	// it listens. nil: there is nobody who could.
	Fail func(context.Context) error
	// Mend starts again what Fail left dead and returns when the broker is whole.
	Mend func(context.Context) error
	// PIDs, if not nil, are all processes of the broker, instead of PID.
	PIDs func() []int
	// Prefix begins the client ids of a run, so that one finds nothing of another.
	Prefix string
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

// other is the address of client number i of those that take turns: the last of the
// others first.
func (t *Target) other(i int) netip.AddrPort {
	if i %= len(t.Others) + 1; i < len(t.Others) {
		return t.Others[len(t.Others)-1-i]
	}
	return t.Address
}

// addresses returns all of them, those of publishers first.
func (t *Target) addresses() []netip.AddrPort {
	return append([]netip.AddrPort{t.Address}, t.Others...)
}

// cpu returns the CPU time the broker has used, 0 if that is not measured.
func (t *Target) cpu() (float64, error) { return sum(t, cpuSeconds) }

// resident returns the broker's resident memory in bytes, 0 if that is not measured.
func (t *Target) resident() (int64, error) { return sum(t, residentBytes) }

// sum adds a figure of all processes of the broker.
func sum[N int64 | float64](t *Target, of func(pid int) (N, error)) (total N, err error) {
	if t.PIDs == nil {
		return of(t.PID)
	}
	for _, pid := range t.PIDs() {
		n, err := of(pid)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a process that has just ended
		}
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// connect returns the CONNECT of a client. A persistent one keeps its session
// for an hour after it leaves.
func (t *Target) connect(id string, persistent bool) []byte {
	c := mqtt.Connect{
		Version: t.version(), ClientID: t.Prefix + id, CleanStart: !persistent,
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
