package mesh

import (
	"encoding/binary"

	"maestrohub.io/uns/broker/value"
)

// appendValue appends a value frame: flags, record.
func appendValue(dst []byte, v *value.Value, flags Flags) []byte {
	start := len(dst)
	dst = append(beginFrame(dst, kindValue), byte(flags))
	return endFrame(v.AppendRecord(dst), start)
}

// shareFrame is the decoded form of a share frame but for its value.
type shareFrame struct {
	call    uint64
	key     string
	session string
	flags   Flags
	record  []byte
}

func appendShare(dst []byte, call uint64, s *Share) []byte {
	start := len(dst)
	dst = binary.AppendUvarint(beginFrame(dst, kindShare), call)
	dst = appendString(dst, s.Key)
	dst = appendString(dst, s.Session)
	dst = append(dst, byte(s.Flags))
	return endFrame(s.Value.AppendRecord(dst), start)
}

func decodeShare(payload []byte) (shareFrame, error) {
	f := fields{kind: "share", rest: payload}
	s := shareFrame{call: f.number("call"), key: f.string("key"), session: f.string("session"), flags: Flags(f.byte("flags"))}
	s.record = f.rest
	return s, f.err
}

func appendSettled(dst []byte, call uint64, o ShareOutcome) []byte {
	start := len(dst)
	dst = binary.AppendUvarint(beginFrame(dst, kindSettled), call)
	return endFrame(append(dst, byte(o)), start)
}

func decodeSettled(payload []byte) (call uint64, o ShareOutcome, err error) {
	f := fields{kind: "settled", rest: payload}
	call, o = f.number("call"), ShareOutcome(f.byte("outcome"))
	return call, o, f.end()
}

func appendRelease(dst []byte, call uint64, r Release) []byte {
	start := len(dst)
	dst = binary.AppendUvarint(beginFrame(dst, kindRelease), call)
	dst = appendString(dst, r.ClientID)
	return endFrame(appendString(dst, r.ConnectionID), start)
}

func decodeRelease(payload []byte) (call uint64, r Release, err error) {
	f := fields{kind: "release", rest: payload}
	call, r.ClientID, r.ConnectionID = f.number("call"), f.string("client id"), f.string("connection id")
	return call, r, f.end()
}

func appendReleased(dst []byte, call uint64, r Released) []byte {
	start := len(dst)
	dst = binary.AppendUvarint(beginFrame(dst, kindReleased), call)
	dst = append(dst, byte(r.Ended))
	return endFrame(appendString(dst, r.ConnectionID), start)
}

func decodeReleased(payload []byte) (call uint64, r Released, err error) {
	f := fields{kind: "released", rest: payload}
	call, r.Ended, r.ConnectionID = f.number("call"), Ended(f.byte("how it ended")), f.string("connection id")
	return call, r, f.end()
}

func appendReported(dst []byte, call uint64, report []byte) []byte {
	start := len(dst)
	return endFrame(append(binary.AppendUvarint(beginFrame(dst, kindReported), call), report...), start)
}

// decodeReported returns a report that shares its bytes with the payload.
func decodeReported(payload []byte) (call uint64, report []byte, err error) {
	f := fields{kind: "reported", rest: payload}
	call = f.number("call")
	return call, f.rest, f.err
}

func decodeReport(payload []byte) (call uint64, err error) {
	f := fields{kind: "report", rest: payload}
	call = f.number("call")
	return call, f.end()
}

func appendReturning(dst []byte, clientID string) []byte {
	start := len(dst)
	return endFrame(appendString(beginFrame(dst, kindReturning), clientID), start)
}

func decodeReturning(payload []byte) (clientID string, err error) {
	f := fields{kind: "returning", rest: payload}
	clientID = f.string("client id")
	return clientID, f.end()
}

func appendApplied(dst []byte, a Applied) []byte {
	start := len(dst)
	dst = binary.AppendUvarint(beginFrame(dst, kindApplied), a.Routes)
	return endFrame(binary.AppendUvarint(dst, a.Sessions), start)
}

func decodeApplied(payload []byte) (a Applied, err error) {
	f := fields{kind: "applied", rest: payload}
	a.Routes, a.Sessions = f.number("routes"), f.number("sessions")
	return a, f.end()
}

func appendBye(dst []byte, reason string) []byte {
	start := len(dst)
	return endFrame(appendString(beginFrame(dst, kindBye), reason), start)
}

func decodeBye(payload []byte) (reason string, err error) {
	f := fields{kind: "bye", rest: payload}
	reason = f.string("reason")
	return reason, f.end()
}
