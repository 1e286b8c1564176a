package mesh

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"maestrohub.io/uns/broker/value"
)

// makeCertificate is a new deployment's certificate.
func makeCertificate(t testing.TB) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "mesh"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

var deployment = sync.OnceValue(func() tls.Certificate { return makeCertificate(panicking{}) })

// identity shows a certificate and takes no other.
func identity(c tls.Certificate) func() Identity {
	return func() Identity { return Identity{Certificate: c} }
}

// panicking makes the deployment's certificate outside of any test.
type panicking struct{ testing.TB }

func (panicking) Helper()           {}
func (panicking) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// network is links in memory that can be cut, frozen and refused.
type network struct {
	mu        sync.Mutex
	listeners map[string]*fakeListener
	cables    map[*cable]bool
	refusing  bool // new connections are refused
	swallow   bool // new connections are made and nothing goes through
	dials     int
}

type fakeListener struct {
	n       *network
	address string
	conns   chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func (l *fakeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *fakeListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *fakeListener) Addr() net.Addr { return fakeAddress(l.address) }

type fakeAddress string

func (fakeAddress) Network() string  { return "memory" }
func (a fakeAddress) String() string { return string(a) }

func newNetwork() *network {
	return &network{listeners: map[string]*fakeListener{}, cables: map[*cable]bool{}}
}

func (n *network) listen(address string) net.Listener {
	l := &fakeListener{n: n, address: address, conns: make(chan net.Conn), closed: make(chan struct{})}
	n.mu.Lock()
	n.listeners[address] = l
	n.mu.Unlock()
	return l
}

func (n *network) dial(ctx context.Context, address string) (net.Conn, error) {
	n.mu.Lock()
	l, refusing := n.listeners[address], n.refusing
	n.dials++
	n.mu.Unlock()
	if l == nil || refusing {
		return nil, errors.New("connection refused")
	}
	c := n.plug()
	select {
	case l.conns <- c.b:
		return c.a, nil
	case <-l.closed:
		c.cut()
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		c.cut()
		return nil, ctx.Err()
	}
}

// cable is one connection; what is in its middle forwards.
type cable struct {
	n      *network
	a, b   net.Conn // the ends handed out
	ia, ib net.Conn // the inner ones
	thaw   chan struct{}
	frozen atomic.Bool
}

func (n *network) plug() *cable {
	c := &cable{n: n, thaw: make(chan struct{})}
	c.a, c.ia = net.Pipe()
	c.b, c.ib = net.Pipe()
	n.mu.Lock()
	c.frozen.Store(n.swallow)
	n.cables[c] = true
	n.mu.Unlock()
	go c.forward(c.ia, c.ib)
	go c.forward(c.ib, c.ia)
	return c
}

func (c *cable) forward(from, to net.Conn) {
	defer to.Close() // after what came before
	defer from.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if c.frozen.Load() {
			<-c.thaw
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (c *cable) cut() {
	c.n.mu.Lock()
	first := c.n.cables[c]
	delete(c.n.cables, c)
	c.n.mu.Unlock()
	if first {
		close(c.thaw)
		for _, conn := range []net.Conn{c.a, c.b, c.ia, c.ib} {
			conn.Close()
		}
	}
}

// cut resets every connection.
func (n *network) cut() {
	for _, c := range n.all() {
		c.cut()
	}
}

func (n *network) freeze() {
	for _, c := range n.all() {
		c.frozen.Store(true)
	}
}

func (n *network) set(refusing, swallow bool) {
	n.mu.Lock()
	n.refusing, n.swallow = refusing, swallow
	n.mu.Unlock()
}

func (n *network) all() []*cable {
	n.mu.Lock()
	defer n.mu.Unlock()
	var list []*cable
	for c := range n.cables {
		list = append(list, c)
	}
	return list
}

// replica is one end that records what it is handed.
type replica struct {
	*Mesh
	id     string
	logs   *lockedBuffer
	fenced atomic.Bool
	links  atomic.Int32 // LinksChanged calls

	mu        sync.Mutex
	values    map[string][]string // payloads by "replica/incarnation"
	flags     []Flags
	shares    []heldShare
	releases  []heldRelease
	returning []string
	applied   []Applied
	changed   chan struct{} // closed at every change
	hold      chan struct{} // Values waits for it, if set
}

type heldShare struct {
	Share
	answer func(ShareOutcome)
}

type heldRelease struct {
	Release
	answer func(Released)
}

// lockedBuffer is a log that can be waited for.
type lockedBuffer struct {
	mu      sync.Mutex
	b       bytes.Buffer
	written chan struct{} // closed at the next line
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.written != nil {
		close(b.written)
		b.written = nil
	}
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	text, _ := b.look()
	return text
}

func (b *lockedBuffer) look() (text string, written <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.written == nil {
		b.written = make(chan struct{})
	}
	return b.b.String(), b.written
}

// recorder is a replica's handler.
type recorder struct{ *replica }

// start makes a replica; edit may change its options.
func start(t testing.TB, id string, l net.Listener, edit func(*Options)) *replica {
	t.Helper()
	r := &replica{id: id, logs: &lockedBuffer{}, values: map[string][]string{}, changed: make(chan struct{})}
	o := Options{Replica: id, Listener: l, Identity: identity(deployment()), Handler: recorder{r}, MayAct: func() bool { return !r.fenced.Load() },
		Logger: slog.New(slog.NewTextHandler(r.logs, nil))}
	if edit != nil {
		edit(&o)
	}
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r.Mesh = m
	return r
}

func (r *replica) note(f func()) {
	r.mu.Lock()
	f()
	close(r.changed)
	r.changed = make(chan struct{})
	r.mu.Unlock()
}

func (r recorder) Values(from Peer, batch []Received) {
	r.mu.Lock()
	hold := r.hold
	r.mu.Unlock()
	if hold != nil {
		<-hold
	}
	r.note(func() {
		key := fmt.Sprintf("%s/%d", from.Replica, from.Incarnation)
		for _, v := range batch {
			r.values[key] = append(r.values[key], string(v.Value.Payload))
			r.flags = append(r.flags, v.Flags)
		}
	})
}
func (r recorder) Share(_ Peer, s Share, answer func(ShareOutcome)) {
	r.note(func() { r.shares = append(r.shares, heldShare{s, answer}) })
}
func (r recorder) Release(_ Peer, q Release, answer func(Released)) {
	r.note(func() { r.releases = append(r.releases, heldRelease{q, answer}) })
}
func (r recorder) Returning(_ Peer, clientID string) {
	r.note(func() { r.returning = append(r.returning, clientID) })
}
func (r recorder) Applied(_ Peer, a Applied) {
	r.note(func() { r.applied = append(r.applied, a) })
}
func (r recorder) LinksChanged() { r.note(func() { r.links.Add(1) }) }

// wait returns once ok holds; what it looks at must change with the handler's calls.
func (r *replica) wait(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		r.mu.Lock()
		changed, now := r.changed, ok()
		r.mu.Unlock()
		if now {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("replica %s: never %s\nlog:\n%s", r.id, what, r.logs)
		}
	}
}

func (r *replica) waitLinked(t testing.TB, n int) {
	t.Helper()
	r.wait(t, fmt.Sprintf("%d linked", n), func() bool { return len(r.Linked()) == n })
}

func (r *replica) got(from string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.values[from]...)
}

func sample(payload string) *value.Value {
	p := []byte(payload)
	return &value.Value{Workspace: "acme", Name: "mHv1.0/acme/line/1", Topic: "line/1", Publisher: "press", ClientID: "press-1", QoS: 1, Payload: p, Body: p}
}

func outgoing(payload string, peers ...string) Outgoing {
	return Outgoing{Value: sample(payload), Peers: peers}
}

// send sends values and returns a channel that is closed when they are done.
func (r *replica) send(peer string, payloads ...string) <-chan struct{} {
	done := make(chan struct{})
	batch := make([]Outgoing, len(payloads))
	for i, p := range payloads {
		batch[i] = outgoing(p, peer)
	}
	r.SendValues(batch, func() { close(done) })
	return done
}
