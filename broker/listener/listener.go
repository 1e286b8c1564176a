package listener

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Transports, as Conn.Transport and the observers name them.
const (
	TCP = "tcp"
	TLS = "tls"
	WS  = "ws"
	WSS = "wss"
)

// Reasons for which a connection is refused before it is handed over; names of the metric's label values.
const (
	MaxPending      = "max_pending_connections"
	MaxPerSource    = "max_connections_per_source"
	ProxyHeader     = "proxy_header"
	HandshakeFailed = "handshake_failed"
	ConnectTimeout  = "connect_timeout"
)

// Options are where to listen and whom to admit.
type Options struct {
	TCP       string // address, such as ":1883"; "" = not
	TLS       string // used only with Certificates
	WebSocket string // WSS with Certificates

	Certificates   *Certificates // nil = no TLS
	WebSocketPath  string
	AllowedOrigins []string // besides the own host; see config. "*" = any

	TrustedProxies       []netip.Prefix // a PROXY header is required from these, and read from no other
	TrustClientAddresses bool           // addresses are the devices' own: Conn.Remote, MaxPerSource
	MaxPending           int
	MaxPerSource         int
	ConnectTimeout       time.Duration

	Accepted func(transport string)         // observes; nil = nobody
	Refused  func(transport, reason string) // observes; nil = nobody
	Pending  func(n int)                    // observes the places taken; nil = nobody
	Log      *slog.Logger
}

// Listener is the open listeners of one replica.
type Listener struct {
	options Options
	log     *slog.Logger
	handle  func(*Conn)
	upgrade *upgrader
	places  *places
	sources *sources

	ctx       context.Context // ends with Stop
	stop      context.CancelFunc
	accepting sync.WaitGroup
	opening   sync.WaitGroup // goroutines of connections not handed over yet

	mu        sync.Mutex // owns the rest
	listeners []opened
	early     map[net.Conn]struct{} // accepted, not handed over
	closed    bool
}

type opened struct {
	net.Listener
	transport string
}

// New opens every listener of o, or none, and accepts connections for handle until Stop.
func New(o Options, handle func(*Conn)) (*Listener, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.Background())
	l := &Listener{
		options: o, log: o.Log, handle: handle,
		upgrade: newUpgrader(o.WebSocketPath, o.AllowedOrigins),
		places:  &places{limit: o.MaxPending, observe: o.Pending},
		sources: &sources{limit: o.MaxPerSource},
		ctx:     ctx, stop: stop,
		early: make(map[net.Conn]struct{}),
	}
	webSocket := WS
	if o.Certificates != nil {
		webSocket = WSS
	} else {
		o.TLS = ""
	}
	for _, at := range []struct{ transport, address string }{{TCP, o.TCP}, {TLS, o.TLS}, {webSocket, o.WebSocket}} {
		if at.address == "" {
			continue
		}
		nl, err := net.Listen("tcp", at.address)
		if err != nil {
			l.Close()
			return nil, fmt.Errorf("listen for MQTT over %s on %s: %w", at.transport, at.address, err)
		}
		l.listeners = append(l.listeners, opened{nl, at.transport})
	}
	for _, nl := range l.listeners {
		l.accepting.Go(func() { l.accept(nl) })
	}
	return l, nil
}

// Addrs are the addresses listened on, by transport.
func (l *Listener) Addrs() map[string]net.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	addrs := make(map[string]net.Addr, len(l.listeners))
	for _, nl := range l.listeners {
		addrs[nl.transport] = nl.Addr()
	}
	return addrs
}

// Stop closes the listeners and returns when no more connections are accepted. Those accepted go on.
func (l *Listener) Stop() {
	l.stop()
	l.mu.Lock()
	for _, nl := range l.listeners {
		_ = nl.Close() // the second time it says it is closed
	}
	l.mu.Unlock()
	l.accepting.Wait()
}

// Close is Stop, and closes the connections that were not handed over yet. Those handed over are their
// handler's. It returns when none is on its way any more.
func (l *Listener) Close() {
	l.Stop()
	l.mu.Lock()
	l.closed = true
	for nc := range l.early {
		_ = nc.Close()
	}
	l.mu.Unlock()
	l.opening.Wait()
}

// accept takes connections until the listener is closed. An error that is not the listener's end (out of
// file descriptors, a connection gone before it was taken) is waited out.
func (l *Listener) accept(nl opened) {
	const shortest, longest = 5 * time.Millisecond, time.Second
	wait := time.Duration(0)
	for {
		nc, err := nl.Accept()
		if err == nil {
			wait = 0
			l.admit(nc, nl.transport)
			continue
		}
		if l.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return
		}
		if wait == 0 {
			l.log.Error("embedded broker: cannot accept connections, trying again", "transport", nl.transport, "error", err)
		}
		wait = min(max(2*wait, shortest), longest)
		select {
		case <-time.After(wait):
		case <-l.ctx.Done():
			return
		}
	}
}

// admit gives a new connection its pending place and its goroutine.
func (l *Listener) admit(nc net.Conn, transport string) {
	if l.options.Accepted != nil {
		l.options.Accepted(transport)
	}
	if !l.places.take() {
		l.refuse(transport, MaxPending, nc, nil)
		_ = nc.Close()
		return
	}
	deadline := time.Now().Add(l.options.ConnectTimeout)
	_ = nc.SetDeadline(deadline)
	l.mu.Lock()
	l.early[nc] = struct{}{}
	l.opening.Add(1)
	l.mu.Unlock()
	go l.open(nc, transport, deadline)
}

// open does what comes before MQTT, and hands the connection over.
func (l *Listener) open(nc net.Conn, transport string, deadline time.Time) {
	c := &Conn{Transport: transport, release: release{listener: l}}
	reason, err := l.prepare(c, nc, deadline)
	l.mu.Lock()
	delete(l.early, nc)
	closed := l.closed
	l.mu.Unlock()
	l.opening.Done()
	if err != nil || closed {
		if !closed {
			l.refuse(transport, reason, nc, err)
		}
		c.release.all()
		_ = nc.Close()
		return
	}
	l.handle(c)
}

// prepare fills c, or says why not.
func (l *Listener) prepare(c *Conn, nc net.Conn, deadline time.Time) (reason string, err error) {
	source, direct := peer(nc), true
	if trusted(l.options.TrustedProxies, source) {
		if source, err = readProxyHeader(nc); err != nil {
			return late(err, ProxyHeader), err
		}
		direct = false
	}
	c.proxied = !direct
	if l.options.TrustClientAddresses {
		c.Remote = source
		if source.IsValid() {
			if !l.sources.take(source) {
				return MaxPerSource, errors.New("too many connections from this address")
			}
			c.release.source = source
		}
	}
	c.tcp, _ = nc.(*net.TCPConn)
	c.Conn = nc
	if c.Transport == TLS || c.Transport == WSS {
		secure, err := l.options.Certificates.handshake(nc)
		if err != nil {
			return late(err, HandshakeFailed), err
		}
		if certs := secure.ConnectionState().PeerCertificates; len(certs) > 0 {
			c.PeerCertificate = certs[0]
		}
		c.Conn = secure
	}
	if c.Transport == WS || c.Transport == WSS {
		ws, err := l.upgrade.handshake(c.Conn)
		if err != nil {
			return late(err, HandshakeFailed), err
		}
		c.Conn = ws
	}
	// Only the read deadline is left: writing is the handler's.
	_ = c.Conn.SetDeadline(time.Time{})
	_ = c.Conn.SetReadDeadline(deadline)
	return "", nil
}

// late is ConnectTimeout for an error that is the deadline's, else the other reason.
func late(err error, other string) string {
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() {
		return ConnectTimeout
	}
	return other
}

func (l *Listener) refuse(transport, reason string, nc net.Conn, err error) {
	if l.options.Refused != nil {
		l.options.Refused(transport, reason)
	}
	l.log.Debug("embedded broker: connection refused", "transport", transport, "reason", reason, "remote", nc.RemoteAddr(), "error", err)
}
