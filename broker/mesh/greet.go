package mesh

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

// shakeHands does a handshake over a TLS connection until the link stands. f keeps what was read beyond it:
// the dialer's first frames may follow its resume at once. Only a refusal leaves a replica that may not act.
func shakeHands(conn *tls.Conn, f *frames, h *handshake, mayAct func() bool) error {
	write := func(b []byte, refusal bool) error {
		if len(b) == 0 {
			return nil
		}
		if !refusal && !mayAct() {
			return errFenced
		}
		_, err := conn.Write(b)
		return plain(err)
	}
	if err := write(h.begin(), false); err != nil {
		return err
	}
	for {
		k, payload, _, ok, err := f.next()
		if err != nil {
			return err
		}
		if !ok {
			n, err := conn.Read(f.space())
			if f.end += n; n == 0 && err != nil {
				return plain(err)
			}
			continue
		}
		out, done, err := h.step(k, payload)
		if werr := write(out, err != nil); err == nil {
			err = werr
		}
		if err != nil {
			return err
		}
		if done {
			return nil
		}
	}
}

// plain leaves the ports out of a network error, so that the same trouble is the same text again.
func plain(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	return err
}

// serve runs a link from its handshake, after which rest was read, to its end.
func (p *peer) serve(l *link, rest frames, resumed uint64) error {
	l.wire.gathering()
	l.wire.SetDeadline(time.Time{})
	if err := p.establish(l, resumed); err != nil {
		return err
	}
	l.run(rest)
	return nil
}
