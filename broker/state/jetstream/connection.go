package jetstream

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"maestrohub.io/uns/broker/state"
)

// connection is one connection to NATS that is made again for as long as it is
// open. Nothing waits in a reconnect buffer: what cannot be sent now fails now.
//
// Messages are handed to a goroutine of its own, because the client library
// holds its lock while it writes and while it connects: a caller's context ends
// its waiting even while a hung server takes nothing.
type connection struct {
	nc      *nats.Conn
	name    string
	log     *slog.Logger
	silence time.Duration
	born    time.Time
	heard   atomic.Int64 // when the last byte came, ns since born
	out     chan *parcel
	inbox   string
	closing chan struct{}
	once    sync.Once
	// roundTrip is how long answers take, readTrip those that come from any copy of a
	// stream: when to send again.
	roundTrip, readTrip roundTrip
	ids                 atomic.Uint64
	met                 func(streamInfo)      // told what streams say; nil: nobody. Set before anybody asks
	payload             atomic.Int64          // see maxPayload
	dialed              atomic.Pointer[error] // of the last attempt to reach a server

	mu      sync.Mutex // below; taken last, also under the client library's locks
	wire    *wire      // the current connection's; nil before the first
	up      bool
	changed chan struct{} // closed and replaced when up changes
	tokens  uint64
	waiting map[uint64]func(attempt int, m *nats.Msg)
}

// parcel is messages to be sent one after the other, at once.
type parcel struct {
	msgs      []*nats.Msg
	cancelled atomic.Bool
	sent      chan error
}

// errNotSent: nothing of it went out.
var errNotSent = errors.New("not connected to NATS")

// connect starts a connection and returns at once; see ready.
func connect(o Options, name string, servers []string, silence time.Duration) (*connection, error) {
	c := &connection{
		name: name, log: o.Logger, silence: silence, born: time.Now(),
		out:     make(chan *parcel, 1024),
		inbox:   "_INBOX." + newID() + ".",
		closing: make(chan struct{}),
		changed: make(chan struct{}),
		waiting: map[uint64]func(int, *nats.Msg){},
	}
	options := []nats.Option{
		nats.Name(fmt.Sprintf("uns-broker %s %s", o.Replica, name)),
		nats.DontRandomize(),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 200*time.Millisecond),
		nats.ReconnectBufSize(-1),
		nats.Timeout(o.ConnectTimeout),
		nats.FlusherTimeout(silence),
		// Pings only keep bytes coming; the rule of silence is ours.
		nats.PingInterval(2 * time.Second),
		nats.MaxPingsOutstanding(1 << 30),
		nats.SetCustomDialer(&dialer{c}),
		nats.ConnectHandler(c.connected),
		nats.ReconnectHandler(c.connected),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			c.log.Warn("broker cluster: connection to NATS lost", "connection", c.name, "error", err)
		}),
		// A slow subscription shows as a gap in sequences, which is filled.
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			c.log.Warn("broker cluster: NATS reports an error", "connection", c.name, "error", err)
		}),
	}
	if o.Credentials != nil {
		options = append(options, nats.UserInfoHandler(o.Credentials), nats.IgnoreAuthErrorAbort())
	}
	if o.TLS != nil {
		options = append(options, nats.Secure(o.TLS))
	}
	if o.Roots != nil {
		options = append(options, nats.ClientTLSConfig(nil, func() (*x509.CertPool, error) { return o.Roots(), nil }))
	}
	nc, err := nats.Connect(strings.Join(servers, ","), options...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS at %s: %w", strings.Join(servers, ","), err)
	}
	c.nc = nc
	sub, err := nc.Subscribe(c.inbox+">", c.dispatch)
	if err == nil {
		err = sub.SetPendingLimits(-1, -1) // bounded by what was asked for
	}
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("subscribe to answers of NATS: %w", err)
	}
	if nc.IsConnected() {
		c.connected(nc)
	}
	go c.send()
	go c.watchSilence()
	return c, nil
}

// connected: the handshake is through.
func (c *connection) connected(nc *nats.Conn) {
	c.payload.Store(nc.MaxPayload())
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.up || c.wire == nil || c.wire.broken {
		return
	}
	c.up = true
	close(c.changed)
	c.changed = make(chan struct{})
	c.log.Info("broker cluster: connected to NATS", "connection", c.name, "server", c.wire.RemoteAddr().String())
}

// lost: the wire broke. Called before the client library knows.
func (c *connection) lost(w *wire) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.broken = true
	if w != c.wire || !c.up {
		return
	}
	c.up = false
	close(c.changed)
	c.changed = make(chan struct{})
}

// status says whether messages can be sent, and gives a channel that is closed
// when that changes, so also at every reconnect.
func (c *connection) status() (up bool, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.up, c.changed
}

// trouble is why the connection is not up, as far as that is known; nil while it is. It may
// wait for an attempt to connect that is under way.
func (c *connection) trouble() error {
	if up, _ := c.status(); up {
		return nil
	}
	if err := c.dialed.Load(); err != nil && *err != nil {
		return *err
	}
	return c.nc.LastError() // what the server said, who does not know the password
}

// silent is how long nothing was received.
func (c *connection) silent() time.Duration {
	return time.Since(c.born) - time.Duration(c.heard.Load())
}

// watchSilence gives up a connection that receives nothing.
func (c *connection) watchSilence() {
	c.leave(c.silence/30, func(w *wire) bool {
		silent := c.silent()
		if silent <= c.silence || time.Since(w.made) <= c.silence {
			return false
		}
		c.log.Warn("broker cluster: NATS connection silent, connecting again", "connection", c.name, "silent", silent.Round(time.Millisecond), "server", w.RemoteAddr().String())
		return true
	})
}

// watchAnswers gives up a connection over which something comes and nothing goes, as when
// a network loses one direction of it: others' changes keep it from being silent, and a
// server takes minutes to notice. A server answers pings in their turn, however slow it
// is: twice the silence is waited for one.
func (c *connection) watchAnswers() {
	c.leave(c.silence/8, func(w *wire) bool {
		if !errors.Is(c.nc.FlushTimeout(2*c.silence), nats.ErrTimeout) || !c.on(w) {
			return false
		}
		c.log.Warn("broker cluster: NATS answers no ping, connecting again", "connection", c.name, "waited", 2*c.silence, "server", w.RemoteAddr().String())
		return true
	})
}

// leave closes the wire whenever dead says so, which is asked every so often while there is
// one, until the connection is closed.
func (c *connection) leave(every time.Duration, dead func(w *wire) bool) {
	tick := time.NewTicker(max(every, 10*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-c.closing:
			return
		}
		c.mu.Lock()
		w, up := c.wire, c.up
		c.mu.Unlock()
		if up && dead(w) {
			w.Close()
		}
	}
}

// on reports whether a wire is the current one.
func (c *connection) on(w *wire) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wire == w
}

// send is the goroutine that writes.
func (c *connection) send() {
	for {
		select {
		case p := <-c.out:
			p.sent <- c.publish(p)
		case <-c.closing:
			return
		}
	}
}

func (c *connection) publish(p *parcel) error {
	if up, _ := c.status(); !up || p.cancelled.Load() {
		return errNotSent
	}
	for i, m := range p.msgs {
		if err := c.nc.PublishMsg(m); err != nil {
			if i == 0 && (errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrConnectionClosed)) {
				return errNotSent
			}
			return err
		}
	}
	return nil
}

// await registers a handler for answers and returns the token they come under.
// The handler runs on the connection's reader and must not wait.
func (c *connection) await(handle func(attempt int, m *nats.Msg)) (token uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tokens++
	c.waiting[c.tokens] = handle
	return c.tokens
}

func (c *connection) forget(token uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, token)
}

// reply is the subject that answers to an attempt come to.
func (c *connection) reply(token uint64, attempt int) string {
	return c.inbox + strconv.FormatUint(token, 36) + "." + strconv.Itoa(attempt)
}

func (c *connection) dispatch(m *nats.Msg) {
	first, second, ok := strings.Cut(m.Subject[len(c.inbox):], ".")
	if !ok {
		return
	}
	token, err := strconv.ParseUint(first, 36, 64)
	if err != nil {
		return
	}
	attempt, err := strconv.Atoi(second)
	if err != nil {
		return
	}
	c.mu.Lock()
	handle := c.waiting[token]
	c.mu.Unlock()
	if handle != nil {
		handle(attempt, m)
	}
}

// close ends the connection and everything that waits for it.
func (c *connection) close() {
	c.once.Do(func() {
		close(c.closing)
		// A server that takes nothing must not hold up the end.
		c.mu.Lock()
		w := c.wire
		c.mu.Unlock()
		if w != nil {
			w.Close()
		}
		c.nc.Close()
	})
}

func (c *connection) closed() error {
	select {
	case <-c.closing:
		return state.ErrClosed
	default:
		return nil
	}
}

// messageID returns an id for one write, the same at each of its attempts.
func (c *connection) messageID() string {
	return c.inbox[len("_INBOX."):] + strconv.FormatUint(c.ids.Add(1), 36)
}

// maxPayload is the largest message the server takes, headers included; 0: not
// known yet.
func (c *connection) maxPayload() int64 {
	return c.payload.Load()
}

// rest pauses, or returns why there is nothing to wait for.
func (c *connection) rest(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closing:
		return state.ErrClosed
	}
}
