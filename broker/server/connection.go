package server

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/listener"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/broker/session"
)

// connection is one MQTT client's network connection, from accept to close.
//
// One goroutine reads and handles its packets; a second exists only while there
// is something to write. Outcomes of publishes and deliveries come from the
// lanes and feeds, under the lock.
type connection struct {
	server *Server
	nc     *listener.Conn
	reader *packetReader

	// Set before others know the connection, and fixed from then on.
	arrived  time.Time // its CONNECT
	client   *client
	lock     *sync.Mutex // the client's
	identity string      // the API client
	ws       *workspace
	// deadline is until when the connection may be served; nil on a single node.
	deadline *cluster.Deadline
	// held are its records in a cluster, and resumed the session made of them.
	held    *holding
	resumed *session.Session

	// Set when the connection is attached, and fixed from then on.
	version     mqtt.Version
	session     *session.Session
	keepAlive   time.Duration // 1.5 times the interval in force; 0: none
	maxPacket   uint32        // the client's Maximum Packet Size; 0: none
	problemInfo bool          // Request Problem Information [MQTT-3.1.2-29]
	since       time.Time
	zeroExpiry  bool // the CONNECT asked for Session Expiry 0

	// The reader's own.
	aliasIn  session.AliasIn
	lastName string
	landing  []<-chan struct{} // routes of the SUBSCRIBE at hand
	acked    bool              // an acknowledgment came in this batch: look for more to send

	// lastPacket is when a packet last came, as time since Server.started.
	lastPacket atomic.Int64

	// Under the lock.
	grants   *access.Grants
	will     *mqtt.Will
	out      output
	acks     ackRing
	zero     int // QoS 0 publishes in the chain
	aliasOut session.AliasOut
	// resume lists what the session has to send again before anything else.
	resume []*session.Entry
	// waiting are the retained messages that the connection before had still to send.
	waiting []cluster.Waiting
	// tail: the session has taken everything the feed has dispatched, so the feed
	// delivers to it directly. Otherwise pump reads the log for it.
	tail, pumping bool
	holdsReads    bool          // see readsHeld
	reads         uint64        // begun and ended, see reading
	verdicts      topicVerdicts // what the session wants of the feed's directory
	// seen is the last entry of the log the session is known to have looked at.
	seen          cluster.Position
	dirty         bool // in a list of connections to start
	dropping      bool // its queue has dropped values: said so
	attached      bool
	ended         bool
	detached      bool
	refused       bool           // of MQTT 3.x, to be closed for a refusal: nothing behind that is acknowledged
	fenced        bool           // ended by a fence: nothing more is written
	how           cluster.Ending // how it ended, once detached
	taken, clean  bool           // ended by a takeover, with a clean start
	elsewhere     bool           // by a connection of another replica
	gaveUp        atomic.Bool    // its claim was given up before it was attached (Release)
	over          []cluster.ID   // the claims that its own was made over; nil: it has not landed
	returned      atomic.Int64   // when a CONNECT of its client last arrived after it was lost; ns since 1970
	asked         []string       // the claims that have asked it to give up before that
	recheck, idle *task
	owed          []func()      // what ends the wait for PUBRECs that have not left
	readerWake    chan struct{} // not nil while the reader waits for room
	// settled is closed when the connection has ended, every outcome of its publishes is
	// known and its records say the last word; or when its CONNECT was refused and its claim
	// has been taken back.
	settled chan struct{}
}

// serve runs the connection to its end.
func (c *connection) serve() {
	defer c.nc.Close()
	if !c.handshake() {
		return
	}
	for {
		err := c.packets()
		if err == nil {
			err = c.afterBatch()
		}
		if err == nil {
			err = c.reader.fill()
		}
		if err != nil {
			c.failed(err)
			break
		}
	}
	c.reader.drain(time.Now().Add(closingTime))
}

// errEnded says that the connection was ended from this side.
var errEnded = errors.New("connection ended")

// packets handles every whole packet in the buffer.
func (c *connection) packets() error {
	limit := c.server.options.Config.Broker.MaxPacketBytes
	some := false
	for {
		h, body, ok, err := c.reader.next(limit)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		some = true
		m := c.server.metrics
		m.PacketsReceived[h.Type].Inc()
		m.BytesReceived[h.Type].Add(float64(h.Size + h.Remaining))
		if err := c.handle(h, body); err != nil {
			return err
		}
	}
	if some {
		c.heard()
	}
	return nil
}

// handle acts on one packet.
func (c *connection) handle(h mqtt.Header, body []byte) error {
	switch h.Type {
	case mqtt.PUBLISH:
		return c.onPublish(h, body)
	case mqtt.PUBACK, mqtt.PUBREC, mqtt.PUBREL, mqtt.PUBCOMP:
		return c.onAck(h, body)
	case mqtt.SUBSCRIBE:
		return c.onSubscribe(h, body)
	case mqtt.UNSUBSCRIBE:
		return c.onUnsubscribe(h, body)
	case mqtt.PINGREQ:
		if err := mqtt.DecodePing(h); err != nil {
			return err
		}
		return c.answer(mqtt.PINGRESP, mqtt.AppendPingresp) // [MQTT-3.12.4-1]
	case mqtt.DISCONNECT:
		return c.onDisconnect(h, body)
	case mqtt.CONNECT:
		return &mqtt.Error{Code: mqtt.ProtocolError, Statement: "MQTT-3.1.0-2", Detail: "second CONNECT"}
	case mqtt.AUTH:
		var p mqtt.Auth
		if err := p.Decode(c.version, h, body); err != nil {
			return err
		}
		return &mqtt.Error{Code: mqtt.ProtocolError, Statement: "MQTT-4.12.0-7", Detail: "AUTH without an authentication method in CONNECT"}
	default:
		return &mqtt.Error{Code: mqtt.ProtocolError, Detail: "packet type a client does not send"}
	}
}

// answer appends a packet of ours that is not a delivery. One the client's Maximum
// Packet Size leaves no room for is an error: it must not be sent
// [MQTT-3.1.2-24], and a client that waits for it would wait for ever.
func (c *connection) answer(t mqtt.PacketType, appendTo func(dst []byte) []byte) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	if !c.out.answer(t, appendTo) {
		return &mqtt.Error{Code: mqtt.PacketTooLarge, Detail: t.String() + " larger than the client's Maximum Packet Size"}
	}
	return nil
}

// afterBatch sends what the batch of packets gave rise to, and waits while the
// client has to be slowed down.
func (c *connection) afterBatch() error {
	c.lock.Lock()
	if c.acked {
		c.acked = false
		c.refill()
	}
	c.start()
	c.lock.Unlock()
	return c.awaitRoom(c.answersFull)
}

// awaitRoom waits while full says so; the keep-alive clock stands still
// meanwhile, for it is we who do not read.
func (c *connection) awaitRoom(full func() bool) error {
	waited := false
	for {
		c.lock.Lock()
		if c.ended {
			c.lock.Unlock()
			return errEnded
		}
		if !full() {
			c.lock.Unlock()
			break
		}
		wake := make(chan struct{})
		c.readerWake = wake
		c.start()
		c.lock.Unlock()
		<-wake
		waited = true
	}
	if waited {
		c.heard()
	}
	return nil
}

// wakeReader lets a waiting reader look again. The lock is held.
func (c *connection) wakeReader() {
	if c.readerWake != nil {
		close(c.readerWake)
		c.readerWake = nil
	}
}

func (c *connection) answersFull() bool {
	return c.out.answers >= c.server.limits.MaxClientWritesPending
}

// failed ends the connection for what the reader met.
func (c *connection) failed(err error) {
	var bad *mqtt.Error
	switch {
	case errors.Is(err, errEnded):
	case errors.As(err, &bad):
		c.server.log.Info("embedded broker: connection closed for an error of the client", "client_id", c.client.id,
			"reason", bad.Code.String(), "detail", bad.Error(), "remote", c.nc.RemoteAddr().String())
		c.end(ending{why: closedFor(bad.Code), code: bad.Code, reason: bad.Detail, notify: true}) // [MQTT-4.13.1-1]
	default:
		c.end(ending{why: "connection_lost"})
	}
}

// closedFor names an error of the client as the metric does.
func closedFor(code mqtt.ReasonCode) string {
	switch code {
	case mqtt.KeepAliveTimeout:
		return "keep_alive"
	case mqtt.MalformedPacket:
		return "malformed"
	case mqtt.PacketTooLarge:
		return "packet_too_large"
	case mqtt.ReceiveMaximumExceeded:
		return "receive_maximum"
	default:
		return "protocol_error"
	}
}

// close ends the connection from this side; MQTT 5 clients are told why. why is
// the metric's word for it.
func (c *connection) close(why string, code mqtt.ReasonCode, reason string) {
	c.end(ending{why: why, code: code, reason: reason, notify: true})
}

// ending says how a connection ends.
type ending struct {
	// why is the reason as the metric of disconnects counts it.
	why    string
	code   mqtt.ReasonCode
	reason string
	// notify: an MQTT 5 client is sent a DISCONNECT with code and reason.
	notify bool
	// properly: the client sent DISCONNECT 0x00, which drops its will
	// [MQTT-3.14.4-3].
	properly bool
	// taken: another connection takes the client identifier over; clean says that
	// it starts a new session.
	taken, clean bool
	// elsewhere: it is another replica's connection, which sees to the will if it ends
	// the session.
	elsewhere bool
	// fenced: this replica may not write anything any more.
	fenced bool
	// expiry replaces the session expiry, if not nil.
	expiry *uint32
}

// end ends the connection, once; later calls do nothing. The session is let go
// here and now, whatever the socket still has to write.
func (c *connection) end(e ending) {
	c.lock.Lock()
	if c.ended {
		c.lock.Unlock()
		return
	}
	c.ended = true
	for _, told := range c.owed {
		told() // by nobody any more: the device asks again
	}
	if !c.attached { // attach sees it, and refuses
		c.lock.Unlock()
		return
	}
	c.server.metrics.Disconnects.WithLabelValues(e.why).Inc()
	c.readsHeld(false)
	if e.fenced {
		c.out.discard() // nothing leaves after a fence but the reason
		c.fenced = true
	}
	if e.notify && c.version >= mqtt.V5 { // [MQTT-3.1.4-3]
		p := mqtt.Disconnect{Code: e.code, ReasonString: e.reason}
		c.out.answer(mqtt.DISCONNECT, func(dst []byte) []byte { return p.AppendLimited(dst, c.version, c.maxPacket) })
	}
	c.out.closing = true
	_ = c.nc.SetWriteDeadline(time.Now().Add(closingTime)) // the last write, and one that hangs
	c.server.agenda.cancel(c.recheck)
	c.server.agenda.cancel(c.idle)
	after := c.detach(e)
	c.start()
	c.wakeReader()
	c.lock.Unlock()

	after()
	c.server.unregister(c)

	c.lock.Lock()
	c.detached = true
	c.how, c.taken, c.clean, c.elsewhere = e.how(), e.taken, e.clean, e.elsewhere
	c.settle()
	c.lock.Unlock()
}

// settle closes settled if the connection has ended and nothing is on its way.
// The lock is held.
func (c *connection) settle() {
	if !c.detached || c.acks.len() > 0 || c.zero > 0 || !c.flush() {
		return
	}
	select {
	case <-c.settled:
	default:
		c.server.claims.Delete(c)
		close(c.settled)
		if c.client.last == c {
			c.client.last = nil
		}
		go c.server.forget(c.client)
	}
}

// detach parts the connection from its session and returns what is left to do
// without the lock, which the caller holds.
func (c *connection) detach(e ending) (after func()) {
	s, cl, se := c.server, c.client, c.session
	cl.conn = nil
	cl.online.Store(false)
	cl.offline = time.Now()
	if e.expiry != nil {
		se.Expiry = *e.expiry
	}
	if c.tail {
		se.Position = max(se.Position, c.ws.dispatched())
		c.tail = false
	}
	dropped := se.Detach()
	lost := sharedItems(dropped)
	ends := se.Expiry == 0
	var done []func()
	if !se.Persistent {
		lost = append(lost, sharedEntries(se.Window.Entries())...)
	}
	switch {
	case c.held != nil:
		done = append(done, c.letGo(ends))
	case ends:
		done = append(done, s.endSession(cl, "disconnected"))
	default:
		cl.expiry = s.agenda.add(cl.offline.Add(time.Duration(se.Expiry)*time.Second), func() { go s.expire(cl, se, "expired") })
	}
	if c.will != nil && !e.properly && c.held == nil {
		done = append(done, c.loseWill(e, ends))
	}
	c.will = nil
	return func() {
		for _, f := range done {
			f()
		}
		if len(lost) > 0 {
			c.ws.redirect(lost, se.ClientID)
		}
	}
}
