package natsserver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Waves is a way to a server that tells how often something waits for NATS, without
// a clock: it holds the replies to requests until every request that is out has one,
// lets all of them go at once, and counts that as one wave. What waits for nothing
// but NATS is then over after as many waves as round trips follow one another,
// however many requests go side by side.
//
// Only messages that answer a request are held; what is published meanwhile
// (republished changes, pings) passes. A request sent late, because a machine is busy,
// can make one wave two, never two waves one: the least of several counts is exact.
type Waves struct {
	Address string // host:port, instead of the server's

	backend  string
	counts   func(client, subject string, payload []byte) bool
	listener net.Listener

	mu       sync.Mutex // below
	counting bool
	noting   bool
	open     map[string]bool // replies not there yet, by subject
	held     []heldReply
	requests []string // the subjects
	changed  chan struct{}
	conns    map[net.Conn]struct{}
	closed   bool
}

type heldReply struct {
	to   *downstream
	data []byte
}

// downstream is the side of a connection that the client reads.
type downstream struct {
	mu sync.Mutex
	w  net.Conn
}

func (d *downstream) write(b []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err := d.w.Write(b)
	return err
}

// OpenWaves opens such a way. counts says of a request whether its reply is held: of
// which client, by the name it gave itself, to which subject, with which payload,
// headers included.
func OpenWaves(s *Server, counts func(client, subject string, payload []byte) bool) (*Waves, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open a way to %s: %w", s.Name, err)
	}
	w := &Waves{Address: l.Addr().String(), backend: s.Address, counts: counts, listener: l, conns: map[net.Conn]struct{}{}}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go w.connect(c)
		}
	}()
	return w, nil
}

// Close ends the way and every connection over it.
func (w *Waves) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.listener.Close()
	for c := range w.conns {
		c.Close()
	}
}

// settle is how long no further request may come before a wave is let go.
const settle = 25 * time.Millisecond

// Count counts waves and requests while do runs, in a goroutine of its own; it returns
// once do has.
func (w *Waves) Count(ctx context.Context, do func()) (waves int, requests []string) {
	w.mu.Lock()
	w.counting, w.open, w.held, w.requests = true, map[string]bool{}, nil, nil
	w.changed = make(chan struct{})
	w.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	defer func() {
		w.mu.Lock()
		w.counting = false
		requests = w.requests
		w.release()
		w.mu.Unlock()
		<-done
	}()
	for {
		w.mu.Lock()
		complete, changed := len(w.held) > 0 && len(w.open) == 0, w.changed
		w.mu.Unlock()
		var calm <-chan time.Time
		if complete {
			calm = time.After(settle)
		}
		select {
		case <-done:
			return waves, nil
		case <-ctx.Done():
			return waves, nil
		case <-changed:
		case <-calm:
			w.mu.Lock()
			if w.changed == changed {
				waves++
				w.release()
			}
			w.mu.Unlock()
		}
	}
}

// Requests are the subjects asked while do runs. Nothing is held.
func (w *Waves) Requests(do func()) []string {
	w.mu.Lock()
	w.noting, w.requests = true, nil
	w.mu.Unlock()
	do()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noting = false
	return w.requests
}

// release lets go of what is held. mu is held.
func (w *Waves) release() {
	for _, h := range w.held {
		_ = h.to.write(h.data) // a connection that ended: nobody waits
	}
	w.held = nil
}

func (w *Waves) stir() {
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *Waves) connect(client net.Conn) {
	server, err := net.Dial("tcp", w.backend)
	if err != nil {
		client.Close()
		return
	}
	w.mu.Lock()
	w.conns[client], w.conns[server] = struct{}{}, struct{}{}
	closed := w.closed
	w.mu.Unlock()
	end := func() {
		client.Close()
		server.Close()
	}
	if closed {
		end()
		return
	}
	down := &downstream{w: client}
	go func() {
		defer end()
		w.upward(client, server)
	}()
	go func() {
		defer end()
		w.downward(server, down)
	}()
}

// frame reads one protocol line and, of a message, what follows it.
func frame(r *bufio.Reader) (words []string, payload, all []byte, err error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, nil, nil, err
	}
	words = strings.Fields(string(line))
	if len(words) == 0 {
		return nil, nil, line, nil
	}
	switch strings.ToUpper(words[0]) {
	case "PUB", "HPUB", "MSG", "HMSG":
		n, err := strconv.Atoi(words[len(words)-1])
		if err != nil {
			return nil, nil, nil, fmt.Errorf("line %q: %w", line, err)
		}
		at := len(line)
		all = append(line, make([]byte, n+2)...)
		if _, err := io.ReadFull(r, all[at:]); err != nil {
			return nil, nil, nil, err
		}
		return words, all[at : at+n], all, nil
	}
	return words, nil, line, nil
}

// upward passes on what the client sends and notes its requests.
func (w *Waves) upward(from io.Reader, to net.Conn) {
	name := ""
	for r := bufio.NewReaderSize(from, 1<<16); ; {
		words, payload, all, err := frame(r)
		if err != nil {
			return
		}
		if len(words) > 0 {
			switch strings.ToUpper(words[0]) {
			case "CONNECT":
				if _, rest, ok := strings.Cut(string(all), `"name":"`); ok {
					name, _, _ = strings.Cut(rest, `"`)
				}
			case "PUB":
				if len(words) == 4 {
					w.asked(name, words[1], words[2], payload)
				}
			case "HPUB":
				if len(words) == 5 {
					w.asked(name, words[1], words[2], payload)
				}
			}
		}
		if _, err := to.Write(all); err != nil {
			return
		}
	}
}

func (w *Waves) asked(client, subject, reply string, payload []byte) {
	if !w.counts(client, subject, payload) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.counting || w.noting {
		w.requests = append(w.requests, subject)
	}
	if w.counting {
		w.open[reply] = true
		w.stir()
	}
}

// downward passes on what the server sends, but for replies that are to be held.
func (w *Waves) downward(from io.Reader, to *downstream) {
	for r := bufio.NewReaderSize(from, 1<<16); ; {
		words, _, all, err := frame(r)
		if err != nil {
			return
		}
		if len(words) > 1 && strings.HasSuffix(strings.ToUpper(words[0]), "MSG") && w.answered(words[1], to, all) {
			continue
		}
		if to.write(all) != nil {
			return
		}
	}
}

// answered reports whether a message is kept because it answers a request.
func (w *Waves) answered(subject string, to *downstream, data []byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.counting || !w.open[subject] {
		return false
	}
	delete(w.open, subject)
	w.held = append(w.held, heldReply{to, data})
	w.stir()
	return true
}
