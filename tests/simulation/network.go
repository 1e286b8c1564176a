package simulation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"maestrohub.io/uns/tests/simulation/store"
)

// network is every connection between hosts: devices and replicas, replicas and
// replicas. Bytes take a while, arrive in order, and wait while a link is stalled or a
// host at an end of it does not run.
type network struct {
	dice   *store.Dice
	effect func(format string, args ...any) // told of all that leaves and arrives

	mu        sync.Mutex
	hosts     map[string]*host
	links     map[[2]string]*link
	listeners map[string]*door
	sockets   map[*socket]bool // one end of each
}

// host is one end's machine and process.
type host struct {
	name   string
	dead   bool
	frozen bool
	froze  time.Time
}

// link is what lies between two hosts.
type link struct {
	stalled bool // nothing arrives, nothing breaks
	refused bool // no new connection
	delay   store.Span
}

func newNetwork(dice *store.Dice, effect func(format string, args ...any)) *network {
	return &network{dice: dice, effect: effect, hosts: map[string]*host{}, links: map[[2]string]*link{}, listeners: map[string]*door{}, sockets: map[*socket]bool{}}
}

// usualDelay is how long bytes are on their way when nothing is wrong.
var usualDelay = store.Span{Min: 200 * time.Microsecond, Max: 2 * time.Millisecond}

// boot returns the host of that name, for a process that starts on it.
func (n *network) boot(name string) *host {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.host(name)
}

// host returns the host of that name. The lock is held.
func (n *network) host(name string) *host {
	h := n.hosts[name]
	if h == nil {
		h = &host{name: name}
		n.hosts[name] = h
	}
	return h
}

// between returns the link of two hosts. The lock is held.
func (n *network) between(a, b string) *link {
	if a > b {
		a, b = b, a
	}
	l := n.links[[2]string{a, b}]
	if l == nil {
		l = &link{delay: usualDelay}
		n.links[[2]string{a, b}] = l
	}
	return l
}

// change changes something that bytes or dials may wait for.
func (n *network) change(with func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	with()
	for s := range n.sockets {
		s.in.stir()
		s.out.stir()
	}
}

// stall keeps everything between two hosts from arriving, or lets it arrive.
func (n *network) stall(a, b string, stalled bool) {
	n.change(func() { n.between(a, b).stalled = stalled })
}

// refuse keeps new connections between two hosts from being made, and breaks those
// there are.
func (n *network) refuse(a, b string, refused bool) {
	n.change(func() { n.between(a, b).refused = refused })
	if refused {
		n.reset(func(s *socket) bool { return s.joins(a, b) })
	}
}

// freeze stops a host's process, as far as the network can tell, or lets it go on. What it
// writes meanwhile leaves when it goes on, for its check of the time came before.
func (n *network) freeze(name string, frozen bool) {
	n.change(func() {
		h := n.host(name)
		if frozen && !h.frozen {
			h.froze = time.Now()
		}
		h.frozen = frozen
	})
}

// stallDevices is stall for all devices of a replica.
func (n *network) stallDevices(replica string, stalled bool) {
	n.change(func() {
		for pair, l := range n.links {
			if pair[0] == replica && isDevice(pair[1]) || pair[1] == replica && isDevice(pair[0]) {
				l.stalled = stalled
			}
		}
	})
}

// move has the devices of a replica go elsewhere: they leave their connections open.
func (n *network) move(replica string) {
	n.moveThose(func(s *socket) bool { return s.b.name == replica && isDevice(s.a.name) })
}

// moveThose is move for the devices of some connections.
func (n *network) moveThose(which func(s *socket) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for s := range n.sockets {
		if which(s) {
			s.in.mu.Lock()
			s.in.moved = true
			s.in.stirred()
			s.in.mu.Unlock()
		}
	}
}

// reset breaks connections.
func (n *network) reset(which func(s *socket) bool) {
	n.mu.Lock()
	var broken []*socket
	for s := range n.sockets {
		if which(s) {
			broken = append(broken, s)
		}
	}
	n.mu.Unlock()
	for _, s := range broken {
		s.in.breakOff(syscall.ECONNRESET)
		s.out.breakOff(syscall.ECONNRESET)
	}
}

// kill ends a host's process: its connections are reset, or, if the machine went with
// it, silent. A host of that name may start again.
func (n *network) kill(name string, silent bool) {
	n.mu.Lock()
	old := n.host(name)
	old.dead = true
	delete(n.hosts, name)
	for address, d := range n.listeners {
		if d.host == old {
			delete(n.listeners, address)
			d.close()
		}
	}
	n.mu.Unlock()
	n.reset(func(s *socket) bool {
		if s.a != old && s.b != old {
			return false
		}
		if !silent {
			return true
		}
		own, far := s.in, s.out // of s.a: what it reads, what it writes
		if s.b == old {
			own, far = s.out, s.in
		}
		own.breakOff(syscall.ECONNRESET)
		far.silence()
		return false
	})
}

// door is a listener.
type door struct {
	host    *host
	address string
	conns   chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

// listen opens a listener of a host.
func (n *network) listen(h *host, address string) *door {
	n.mu.Lock()
	defer n.mu.Unlock()
	d := &door{host: h, address: address, conns: make(chan net.Conn, 1024), closed: make(chan struct{})}
	if h.dead {
		d.close()
		return d
	}
	n.listeners[address] = d
	return d
}

func (d *door) close() { d.once.Do(func() { close(d.closed) }) }

// Accept implements net.Listener.
func (d *door) Accept() (net.Conn, error) {
	select {
	case c := <-d.conns:
		return c, nil
	case <-d.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (d *door) Close() error { d.close(); return nil }

// Addr implements net.Listener.
func (d *door) Addr() net.Addr { return address(d.address) }

type address string

func (address) Network() string  { return "simulated" }
func (a address) String() string { return string(a) }

var errRefused = errors.New("connection refused")

// dial connects a host to an address.
func (n *network) dial(ctx context.Context, own *host, to string) (*socket, error) {
	from := own.name
	for {
		n.mu.Lock()
		d := n.listeners[to]
		if d == nil || own.dead {
			n.mu.Unlock()
			return nil, fmt.Errorf("dial %s: %w", to, errRefused)
		}
		l := n.between(from, d.host.name)
		if l.refused {
			n.mu.Unlock()
			return nil, fmt.Errorf("dial %s: %w", to, errRefused)
		}
		if l.stalled || d.host.frozen || own.frozen {
			n.mu.Unlock()
			timer := time.NewTimer(50 * time.Millisecond)
			select {
			case <-timer.C:
				continue
			case <-ctx.Done():
				timer.Stop()
				return nil, fmt.Errorf("dial %s: %w", to, ctx.Err())
			}
		}
		there, back := newWire(n, l, own, d.host), newWire(n, l, d.host, own)
		near := &socket{network: n, a: own, b: d.host, in: back, out: there, local: address(from), remote: address(to)}
		far := &socket{network: n, a: d.host, b: own, in: there, out: back, local: address(to), remote: address(from)}
		n.sockets[near] = true
		n.mu.Unlock()
		near.twin, far.twin = near, near
		select {
		case d.conns <- far:
			return near, nil
		case <-d.closed:
			_ = near.Close()
			return nil, fmt.Errorf("dial %s: %w", to, errRefused)
		case <-ctx.Done():
			_ = near.Close()
			return nil, fmt.Errorf("dial %s: %w", to, ctx.Err())
		}
	}
}

// wireBytes is how much is on a wire before its writer waits.
const wireBytes = 256 << 10

// wire is one direction of a connection.
type wire struct {
	network  *network
	link     *link
	from, to *host

	mu      sync.Mutex
	queue   []chunk
	bytes   int
	due     time.Time // of the last chunk
	closed  bool      // by the writer: EOF follows what is queued
	gone    bool      // the reader does not read any more
	silent  bool      // what is queued never arrives, and nothing says so
	broken  error
	moved   bool          // the next read says so, once
	changed chan struct{} // closed and replaced when any of it changes
}

// chunk is what one Write wrote.
type chunk struct {
	data      []byte
	sent, due time.Time
}

func newWire(n *network, l *link, from, to *host) *wire {
	return &wire{network: n, link: l, from: from, to: to, changed: make(chan struct{})}
}

func (w *wire) stir() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stirred()
}

// stirred wakes who waits. mu is held.
func (w *wire) stirred() {
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *wire) breakOff(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken == nil && !w.silent {
		w.broken = err
		w.stirred()
	}
}

func (w *wire) silence() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent = true
	w.stirred()
}

// lost reports whether the machine it comes from is gone: nobody is there to close it.
func (w *wire) lost() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.silent
}

// held reports whether what was sent at a moment has to wait. The network's lock is held.
func (w *wire) held(sent time.Time) bool {
	return w.link.stalled || w.to.frozen || w.from.frozen && !sent.Before(w.from.froze)
}

// read takes bytes of one chunk, and says when that was written.
func (w *wire) read(p []byte, deadline *deadline) (n int, sent time.Time, err error) {
	for {
		over, passed := deadline.wait()
		w.network.mu.Lock()
		var held bool
		w.mu.Lock()
		if len(w.queue) > 0 {
			held = w.held(w.queue[0].sent)
		} else {
			held = w.held(time.Now())
		}
		w.network.mu.Unlock()
		changed := w.changed
		var due time.Duration
		switch {
		case passed:
			err = os.ErrDeadlineExceeded
		case w.gone:
			err = net.ErrClosed
		case w.broken != nil:
			err = w.broken
		case w.moved:
			w.moved, err = false, errMoved
		case w.silent || held:
		case len(w.queue) > 0:
			c := &w.queue[0]
			if due = time.Until(c.due); due > 0 {
				break
			}
			n = copy(p, c.data)
			sent = c.sent
			c.data = c.data[n:]
			w.bytes -= n
			if len(c.data) == 0 {
				w.queue = w.queue[1:]
			}
			w.stirred()
		case w.closed:
			err = io.EOF
		}
		w.mu.Unlock()
		if n > 0 || err != nil || len(p) == 0 {
			return n, sent, err
		}
		await(changed, over, due)
	}
}

// errMoved tells a device to go elsewhere.
var errMoved = errors.New("moved")

// await waits for either, or for d if it is more than 0.
func await(changed, over <-chan struct{}, d time.Duration) {
	var after <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		after = t.C
	}
	select {
	case <-changed:
	case <-over:
	case <-after:
	}
}

func (w *wire) write(p []byte, deadline *deadline) (n int, err error) {
	for {
		over, passed := deadline.wait()
		w.mu.Lock()
		changed := w.changed
		switch {
		case passed:
			err = os.ErrDeadlineExceeded
		case w.closed:
			err = net.ErrClosed
		case w.broken != nil:
			err = w.broken
		case w.gone:
			err = syscall.EPIPE
		case w.silent && w.bytes < wireBytes, w.bytes < wireBytes:
			now := time.Now()
			w.due = maxTime(w.due, now.Add(spanOf(w.link.delay, w.network.dice, w.from.name+">"+w.to.name)))
			w.queue = append(w.queue, chunk{append([]byte(nil), p...), now, w.due})
			w.bytes += len(p)
			w.stirred()
			n = len(p)
		}
		w.mu.Unlock()
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		await(changed, over, 0)
	}
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func spanOf(s store.Span, d *store.Dice, purpose string) time.Duration {
	if s.Max <= s.Min {
		return s.Min
	}
	return s.Min + time.Duration(d.Roll(purpose).Int64N(int64(s.Max-s.Min)))
}

// socket is one end of a connection. It implements net.Conn.
type socket struct {
	network       *network
	twin          *socket // the end that stands for both in the network
	a, b          *host   // of this end, of the other
	in, out       *wire
	local, remote net.Addr
	reading       deadline
	writing       deadline

	// Sent is when what the last Read returned was written at the other end. Owner: the
	// reader.
	Sent time.Time
}

func (s *socket) joins(a, b string) bool {
	return s.a.name == a && s.b.name == b || s.a.name == b && s.b.name == a
}

// Read implements net.Conn.
func (s *socket) Read(p []byte) (n int, err error) {
	if n, s.Sent, err = s.in.read(p, &s.reading); n > 0 {
		s.network.effect("%s reads from %s", s.a.name, s.b.name)
	}
	return n, err
}

// Write implements net.Conn.
func (s *socket) Write(p []byte) (n int, err error) {
	if n, err = s.out.write(p, &s.writing); n > 0 {
		s.network.effect("%s writes to %s", s.a.name, s.b.name)
	}
	return n, err
}

// Close implements net.Conn: the other end reads what was written, then EOF.
func (s *socket) Close() error {
	s.out.mu.Lock()
	s.out.closed = true
	s.out.stirred()
	s.out.mu.Unlock()
	s.in.mu.Lock()
	s.in.gone = true
	s.in.queue, s.in.bytes = nil, 0
	s.in.stirred()
	both := s.in.closed || s.in.broken != nil
	s.in.mu.Unlock()
	if both {
		s.network.mu.Lock()
		delete(s.network.sockets, s.twin)
		s.network.mu.Unlock()
	}
	return nil
}

// LocalAddr implements net.Conn.
func (s *socket) LocalAddr() net.Addr { return s.local }

// RemoteAddr implements net.Conn.
func (s *socket) RemoteAddr() net.Addr { return s.remote }

// SetDeadline implements net.Conn.
func (s *socket) SetDeadline(t time.Time) error {
	_ = s.SetReadDeadline(t)
	return s.SetWriteDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (s *socket) SetReadDeadline(t time.Time) error {
	s.reading.set(t)
	s.in.stir()
	return nil
}

// SetWriteDeadline implements net.Conn.
func (s *socket) SetWriteDeadline(t time.Time) error {
	s.writing.set(t)
	s.out.stir()
	return nil
}

// deadline is when a read or write has to be done.
type deadline struct {
	mu    sync.Mutex
	at    time.Time
	timer *time.Timer
	over  chan struct{} // closed when it passes; nil: none is set
}

func (d *deadline) set(at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.at, d.over = at, nil
	if at.IsZero() {
		return
	}
	over := make(chan struct{})
	d.over = over
	if wait := time.Until(at); wait > 0 {
		d.timer = time.AfterFunc(wait, func() { close(over) })
	} else {
		close(over)
	}
}

// wait returns a channel that is closed when it passes, and whether it has.
func (d *deadline) wait() (over <-chan struct{}, passed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.over, !d.at.IsZero() && !time.Now().Before(d.at)
}
