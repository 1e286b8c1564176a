package mesh

import "fmt"

// handshake is one end's part in beginning a link, from the first byte after TLS to the frame before the
// first numbered one.
//
//	dialer     hello ─────────────▶  acceptor
//	           ◀───── hello, resume
//	           resume ────────────▶
//
// Either end may answer with a refusal instead.
type handshake struct {
	dialing bool
	own     hello
	// admit says, once there is a common version, whether this replica links with the other end, and
	// from where: the last number it has handled of it. A refusal is sent to the other end.
	admit func(theirs hello) (own hello, handled uint64, r *refusal)

	greeted bool
	version uint64
	theirs  hello
	resumed uint64 // the last of our numbers the other end has handled
}

// begin returns what this end sends unasked.
func (h *handshake) begin() []byte {
	if !h.dialing {
		return nil
	}
	return appendHello(nil, h.own)
}

// step takes a frame in. It returns what is to be sent, also when it fails, and done once the link stands.
func (h *handshake) step(k kind, payload []byte) (out []byte, done bool, err error) {
	switch {
	case k == kindRefuse:
		r, err := decodeRefuse(payload)
		if err != nil {
			return nil, false, err
		}
		return nil, false, r
	case k == kindHello && !h.greeted:
		theirs, err := decodeHello(payload)
		if err != nil {
			return h.refuse(&refusal{code: refusedProtocol, reason: err.Error()})
		}
		h.greeted, h.theirs = true, theirs
		return h.hello()
	case k == kindResume && h.greeted:
		n, err := decodeNumber("resume", payload)
		if err != nil {
			return h.refuse(&refusal{code: refusedProtocol, reason: err.Error()})
		}
		h.resumed = n
		return nil, true, nil
	}
	return h.refuse(&refusal{code: refusedProtocol, reason: fmt.Sprintf("a frame of kind %d in the handshake", k)})
}

func (h *handshake) hello() (out []byte, done bool, err error) {
	version, ok := h.own.versions.common(h.theirs.versions)
	if !ok {
		return h.refuse(&refusal{code: refusedVersion, reason: fmt.Sprintf("no mesh protocol version in common: replica %s speaks %s, replica %s speaks %s",
			h.own.from, h.own.versions, h.theirs.from, h.theirs.versions)})
	}
	h.version = version
	if h.theirs.to != h.own.from {
		return h.refuse(&refusal{code: refusedReplica, reason: fmt.Sprintf("this is replica %s, replica %s was meant", h.own.from, h.theirs.to)})
	}
	if h.dialing && h.theirs.from != h.own.to {
		return h.refuse(&refusal{code: refusedReplica, reason: fmt.Sprintf("dialed replica %s, replica %s answered", h.own.to, h.theirs.from)})
	}
	if !h.dialing && h.theirs.from >= h.own.from {
		return h.refuse(&refusal{code: refusedReplica, reason: fmt.Sprintf("replica %s does not dial replica %s: the lower id dials", h.theirs.from, h.own.from)})
	}
	own, handled, r := h.admit(h.theirs)
	if r != nil {
		return h.refuse(r)
	}
	if !h.dialing {
		out = appendHello(nil, own)
	}
	return appendNumber(out, kindResume, handled), false, nil
}

func (h *handshake) refuse(r *refusal) ([]byte, bool, error) {
	return appendRefuse(nil, r), false, r
}
