package mesh

import (
	"encoding/binary"
	"fmt"
)

// Versions is the range of protocol versions a release speaks.
type Versions struct {
	Min, Max uint64
}

func (v Versions) String() string {
	if v.Min == v.Max {
		return fmt.Sprint(v.Min)
	}
	return fmt.Sprintf("%d to %d", v.Min, v.Max)
}

// common returns the highest version both speak.
func (v Versions) common(o Versions) (version uint64, ok bool) {
	version = min(v.Max, o.Max)
	return version, version >= max(v.Min, o.Min)
}

// hello is the first frame of either end. Its layout is for ever: a later release appends fields, and
// every release ignores what it does not know.
type hello struct {
	versions    Versions
	from        string
	incarnation uint64
	to          string // the replica meant
	attempt     uint64 // counts the dialer's attempts within its life
}

func appendHello(dst []byte, h hello) []byte {
	start := len(dst)
	dst = beginFrame(dst, kindHello)
	dst = binary.AppendUvarint(dst, h.versions.Min)
	dst = binary.AppendUvarint(dst, h.versions.Max)
	dst = appendString(dst, h.from)
	dst = binary.AppendUvarint(dst, h.incarnation)
	dst = appendString(dst, h.to)
	return endFrame(binary.AppendUvarint(dst, h.attempt), start)
}

func decodeHello(payload []byte) (hello, error) {
	f := fields{kind: "hello", rest: payload}
	h := hello{
		versions: Versions{f.number("lowest version"), f.number("highest version")},
		from:     f.string("replica"), incarnation: f.number("incarnation"), to: f.string("replica meant"), attempt: f.number("attempt"),
	}
	return h, f.err // what follows is a later release's
}

// refusalCode says why a hello was refused. Numbers are append-only.
type refusalCode byte

const (
	refusedVersion  refusalCode = 1 // no protocol version in common
	refusedReplica  refusalCode = 2 // another replica was meant, or the wrong end dials
	refusedUnknown  refusalCode = 3 // not among the members, as far as seen
	refusedEnded    refusalCode = 4 // that life of the dialer is over
	refusedAttempt  refusalCode = 5 // a later attempt came first
	refusedBusy     refusalCode = 6 // the link before is still being handled, or this replica does not serve
	refusedProtocol refusalCode = 7 // not what the handshake expects
)

// refusal is why there is no link; an error.
type refusal struct {
	code   refusalCode
	reason string
	theirs bool // the other end refused
}

func (r *refusal) Error() string {
	if r.theirs {
		return "refused by the other replica: " + r.reason
	}
	return r.reason
}

// lasting reports whether trying again soon is of no use.
func (r *refusal) lasting() bool { return r.code == refusedVersion || r.code == refusedReplica }

func appendRefuse(dst []byte, r *refusal) []byte {
	start := len(dst)
	dst = append(beginFrame(dst, kindRefuse), byte(r.code))
	return endFrame(appendString(dst, r.reason), start)
}

func decodeRefuse(payload []byte) (*refusal, error) {
	f := fields{kind: "refuse", rest: payload}
	r := &refusal{code: refusalCode(f.byte("code")), reason: f.string("reason"), theirs: true}
	return r, f.err
}
