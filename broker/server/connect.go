package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"time"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/broker/session"
)

// refusal is why a CONNECT is refused.
type refusal struct {
	code mqtt.ReasonCode
	// label is the metric's reason; detail is for the log, and for the client
	// where it gives nothing away.
	label, detail string
	// silent: closed without a CONNACK, as MQTT 3 wants for what is not a CONNECT.
	silent bool
}

func (r *refusal) Error() string { return r.label + ": " + r.detail }

// handshake takes the connection from its first byte to the CONNACK. false
// means that it is not to be served, and nothing of it is left.
func (c *connection) handshake() bool {
	limits := &c.server.limits
	_ = c.nc.SetReadDeadline(time.Now().Add(limits.ConnectTimeout))
	var p mqtt.Connect
	if r := c.readConnect(&p); r != nil {
		c.refuse(&p, r)
		return false
	}
	c.arrived = time.Now()
	_ = c.nc.SetReadDeadline(time.Time{})
	// The budget runs from the arrival of the CONNECT; the credential check may
	// take half of it.
	ctx, cancel := context.WithTimeout(c.server.ctx, limits.ConnectBudget)
	defer cancel()
	defer c.server.atFence(cancel)()
	if r := c.connect(ctx, &p); r != nil {
		c.refuse(&p, r)
		return false
	}
	c.server.metrics.ConnectsAccepted.WithLabelValues(c.version.String()).Inc()
	c.server.metrics.ConnectSeconds.Observe(time.Since(c.arrived).Seconds())
	return true
}

// readConnect reads the first packet, which must be CONNECT [MQTT-3.1.0-1].
func (c *connection) readConnect(p *mqtt.Connect) *refusal {
	limit := c.server.limits.MaxConnectPacketBytes
	for {
		h, body, ok, err := c.reader.next(limit)
		if h.Size > 0 && h.Type != mqtt.CONNECT {
			return &refusal{label: "protocol_error", detail: "first packet is " + h.Type.String(), silent: true}
		}
		if err == nil && ok {
			if err := p.Decode(h, body); err != nil {
				return malformedConnect(p, err)
			}
			c.version = p.Version
			return nil
		}
		var bad *mqtt.Error
		if errors.As(err, &bad) {
			if bad.Code == mqtt.PacketTooLarge {
				// Enough of it is there to see whether the client understands a reason.
				_ = p.Decode(h, body)
				return &refusal{code: mqtt.PacketTooLarge, label: "connect_packet_too_large", detail: bad.Detail, silent: p.Version < mqtt.V5}
			}
			return &refusal{label: "malformed", detail: bad.Error(), silent: true}
		}
		if err := c.reader.fill(); err != nil {
			if timedOut(err) {
				return &refusal{label: "connect_timeout", detail: "no CONNECT in time", silent: true}
			}
			return &refusal{silent: true} // it went away by itself
		}
	}
}

// malformedConnect answers a CONNECT that does not decode [MQTT-3.1.4-1]: with a
// reason where the version that it names has one.
func malformedConnect(p *mqtt.Connect, err error) *refusal {
	var bad *mqtt.Error
	if !errors.As(err, &bad) {
		return &refusal{label: "malformed", detail: err.Error(), silent: true}
	}
	r := &refusal{code: bad.Code, label: "malformed", detail: bad.Error()}
	// MQTT 3 has a return code for a version and for an identifier, and for nothing
	// else that can be wrong with a CONNECT.
	r.silent = p.Version < mqtt.V5
	switch bad.Code {
	case mqtt.ProtocolError:
		r.label = "protocol_error"
	case mqtt.UnsupportedProtocolVersion: // [MQTT-3.1.2-2]
		r.label, r.silent = "unsupported_protocol_version", false
	case mqtt.ClientIdentifierNotValid: // [MQTT-3.1.3-8]
		r.label, r.silent = "client_id_invalid", false
	}
	return r
}

// connect signs the client in, takes its identifier and session, and answers.
func (c *connection) connect(ctx context.Context, p *mqtt.Connect) *refusal {
	s := c.server
	if s.stopping.Load() {
		return &refusal{code: mqtt.ServerShuttingDown, label: "stopping", detail: errStopping.Error()}
	}
	if s.fenced.Load() {
		s.shared.Member.Refused()
		return &refusal{code: mqtt.ServerUnavailable, label: "fenced", detail: "this replica has lost the shared stores; try again"}
	}
	if p.HasAuthMethod { // [MQTT-4.12.0-1]
		return &refusal{code: mqtt.BadAuthenticationMethod, label: "unsupported_authentication_method", detail: "no enhanced authentication is offered"}
	}
	var slow *task
	if id := p.ClientID; s.shared != nil && id != "" {
		// Its will is held also while nobody can say yet who it is; but not by a credential
		// that is refused as soon as it is looked at.
		slow = s.agenda.add(time.Now().Add(slowSignIn), func() { s.shared.announce(id) })
	}
	grants, r := c.signIn(ctx, p)
	s.agenda.cancel(slow)
	if r != nil {
		return r
	}
	if r := c.checkWill(p.Will, grants); r != nil {
		return r
	}
	assigned := ""
	if p.ClientID == "" { // [MQTT-3.1.3-6]
		if p.Version < mqtt.V5 && !p.CleanStart || p.Version == mqtt.V31 { // [MQTT-3.1.3-8 of 3.1.1]
			return &refusal{code: mqtt.ClientIdentifierNotValid, label: "client_id_invalid", detail: "empty client identifier"}
		}
		assigned = newClientID()
		p.ClientID = assigned
	}
	return c.takeUp(ctx, p, grants, assigned)
}

// slowSignIn is how long a credential check takes before the device counts as one that is
// back.
const slowSignIn = time.Second

// newClientID makes an identifier nobody has [MQTT-3.2.2-16], of characters
// every server accepts.
func newClientID() string {
	var id [10]byte
	_, _ = rand.Read(id[:]) // never fails (crypto/rand)
	return "uns" + hex.EncodeToString(id[:])
}

// signIn checks the credential within half the budget.
func (c *connection) signIn(ctx context.Context, p *mqtt.Connect) (*access.Grants, *refusal) {
	s := c.server
	unavailable := &refusal{code: mqtt.ServerUnavailable, label: "credential_check_unavailable", detail: "the credential could not be checked in time"}
	ctx, cancel := context.WithTimeout(ctx, s.limits.ConnectBudget/2)
	defer cancel()
	select {
	case s.authenticating <- struct{}{}:
		s.metrics.ConnectsChecking.Inc()
		defer func() {
			s.metrics.ConnectsChecking.Dec()
			<-s.authenticating
		}()
	case <-ctx.Done():
		return nil, unavailable
	}
	var grants *access.Grants
	err := access.ErrRefused // a token alone names its client, but MQTT signs in with both
	if p.Username != "" {
		grants, err = s.options.Access.SignIn(ctx, p.Username, p.Password, c.nc.Remote)
	}
	switch {
	case err == nil:
		return grants, nil
	case errors.Is(err, access.ErrThrottled):
		return nil, &refusal{code: throttledCode(p.Version), label: "throttled", detail: "too many failed sign-ins"}
	case errors.Is(err, access.ErrRefused):
		return nil, &refusal{code: mqtt.BadUserNameOrPassword, label: "bad_credentials", detail: "user name or password not accepted"}
	default:
		s.log.Warn("embedded broker: a credential could not be checked", "user", p.Username, "error", err)
		return nil, unavailable
	}
}

// throttledCode answers a throttled sign-in as a wrong one where the version has
// no code for waiting.
func throttledCode(v mqtt.Version) mqtt.ReasonCode {
	if v >= mqtt.V5 {
		return mqtt.ConnectionRateExceeded
	}
	return mqtt.BadUserNameOrPassword
}

// checkWill holds a Last Will to the rule of every publish: into the client's
// own inbox, where its grants let it write.
func (c *connection) checkWill(w *mqtt.Will, grants *access.Grants) *refusal {
	if w == nil {
		return nil
	}
	o := c.server.ingest.Check(w.Topic, grants)
	if o.Refusal == 0 {
		return nil
	}
	code, _ := reasonCode(o.Refusal)
	label := "will_invalid"
	if code == mqtt.NotAuthorized {
		label = "will_not_authorized"
	}
	return &refusal{code: code, label: label, detail: "will: " + o.Detail}
}

// takeUp claims the client identifier, ends the connection that holds it,
// resumes or makes the session, and sends the CONNACK.
func (c *connection) takeUp(ctx context.Context, p *mqtt.Connect, grants *access.Grants, assigned string) (refused *refusal) {
	s := c.server
	busy := &refusal{code: mqtt.ServerUnavailable, label: "connect_budget", detail: "the client identifier could not be taken over in time"}
	cl, err := s.claim(ctx, p.ClientID)
	if err != nil {
		return busy
	}
	defer s.unclaim(cl, true)

	cl.lock.Lock()
	if cl.session != nil && cl.session.Identity != grants.ClientID() {
		cl.lock.Unlock()
		return &refusal{code: mqtt.ClientIdentifierNotValid, label: "client_id_in_use", detail: "client identifier held by another identity"}
	}
	old, last := cl.conn, cl.last
	cl.lock.Unlock()
	if old != nil {
		// [MQTT-3.1.4-3]
		old.end(ending{why: "taken_over", code: mqtt.SessionTakenOver, reason: "another connection took over", notify: true, taken: true, clean: p.CleanStart})
	}
	if last != nil {
		// What the old connection sent is settled first: a QoS 2 PUBLISH whose outcome
		// is not known yet must not be taken for a new one.
		select {
		case <-last.settled:
		case <-ctx.Done():
			return busy
		}
	}
	c.client, c.lock, c.identity, c.ws = cl, &cl.lock, grants.ClientID(), s.workspace(grants.Workspace())
	s.claims.Store(c, nil)
	defer func() {
		if refused != nil {
			c.giveBack()
		}
	}()
	if s.stopping.Load() { // asked after a stop could find the claim, which it waits for
		return &refusal{code: mqtt.ServerShuttingDown, label: "stopping", detail: errStopping.Error()}
	}
	present := false
	if s.shared != nil {
		cl.lock.Lock()
		cl.claimant = c
		cl.lock.Unlock()
		defer func() {
			cl.lock.Lock()
			cl.claimant = nil
			cl.lock.Unlock()
		}()
		var r *refusal
		if present, r = c.takeOverShared(ctx, p, grants); r != nil {
			return r
		}
	}
	if exceeded := s.register(c); exceeded != "" {
		code := mqtt.QuotaExceeded
		if exceeded == "max_clients" {
			code = mqtt.ServerBusy
		} else if exceeded == "stopping" {
			code = mqtt.ServerShuttingDown
		}
		return &refusal{code: code, label: exceeded, detail: "limit reached"}
	}
	if r := c.attach(ctx, cl, p, grants, assigned, present); r != nil {
		s.unregister(c)
		return r
	}
	return nil
}

// overtaken is the end of a CONNECT whose client identifier a later one has claimed, at
// another replica: what it would have been ended by, had it been answered sooner
// [MQTT-3.1.4-3].
var overtaken = &refusal{code: mqtt.ServerUnavailable, label: "taken_over", detail: errOvertaken.Error()}

// takeOverShared makes the client identifier and its session this connection's in
// the cluster.
func (c *connection) takeOverShared(ctx context.Context, p *mqtt.Connect, grants *access.Grants) (present bool, r *refusal) {
	s := c.server
	c.deadline = s.deadline.Load()
	if c.deadline == nil || s.fenced.Load() {
		s.shared.Member.Refused()
		return false, &refusal{code: mqtt.ServerUnavailable, label: "fenced", detail: "this replica has lost the shared stores; try again"}
	}
	present, err := c.takeOver(ctx, p, grants)
	if err == nil {
		return present, nil
	}
	if errors.Is(err, errOvertaken) { // no store's fault: the device is connected, or about to be
		return false, overtaken
	}
	if errors.Is(err, errForeign) {
		return false, &refusal{code: mqtt.ClientIdentifierNotValid, label: "client_id_in_use", detail: err.Error()}
	}
	s.shared.Member.Refused()
	if s.fenced.Load() { // said once, for all of them
		return false, &refusal{code: mqtt.ServerUnavailable, label: "fenced", detail: "this replica has lost the shared stores; try again"}
	}
	s.log.Warn("broker cluster: a CONNECT was refused, the shared stores did not serve it in time", "client_id", p.ClientID, "error", err)
	label := "store_unavailable"
	if ctx.Err() != nil {
		label = "connect_budget"
	}
	return false, &refusal{code: mqtt.ServerUnavailable, label: label, detail: "the session could not be taken up in time; try again"}
}

// attach gives the session to the connection and sends the CONNACK, the first
// packet the client sees [MQTT-3.2.0-1 of 3.1.1].
func (c *connection) attach(ctx context.Context, cl *client, p *mqtt.Connect, grants *access.Grants, assigned string, present bool) *refusal {
	s := c.server
	expiry := c.sessionExpiry(p)
	cl.lock.Lock()
	fresh := cl.session == nil || p.CleanStart
	cl.lock.Unlock()
	position := uint64(0)
	if s.shared == nil && (expiry > 0 || !fresh) {
		next, err := c.ws.openFeed(ctx)
		if err != nil {
			s.log.Error("embedded broker: no session log for a persistent session", "workspace", c.ws.slug, "client_id", cl.id, "error", err)
			return &refusal{code: mqtt.ServerUnavailable, label: "store_unavailable", detail: "the session log could not be opened"}
		}
		position = next
	}
	connack := c.connack(p, grants, expiry, assigned)
	c.maxPacket, c.problemInfo = p.MaximumPacketSize, p.RequestProblemInformation
	if len(connack.AppendLimited(nil, c.version, c.maxPacket)) == 0 { // [MQTT-3.1.2-24]
		return &refusal{code: mqtt.PacketTooLarge, label: "protocol_error", detail: "the CONNACK is larger than the client's Maximum Packet Size"}
	}

	var after func()
	cl.lock.Lock()
	if c.ended {
		cl.lock.Unlock()
		return &refusal{code: mqtt.ServerShuttingDown, label: "stopping", detail: errStopping.Error()}
	}
	if s.fenced.Load() || !c.mayAct() {
		// Fenced since the identifier was claimed. A fence that comes after this finds the
		// connection registered, and ends it.
		cl.lock.Unlock()
		s.shared.Member.Refused()
		return &refusal{code: mqtt.ServerUnavailable, label: "fenced", detail: "this replica has lost the shared stores; try again"}
	}
	if s.shared != nil && (c.gaveUp.Load() || s.shared.holders.overtaken(cl.id, c.held)) {
		// Claimed by another connection since, which has been told that this one gives up, or
		// may not have found it to end. A
		// claim whose answer came late is met here too: a clean session has no record that
		// would tell. What is known after this finds the connection (ownerChanged).
		cl.lock.Unlock()
		return overtaken
	}
	c.attached = true
	// A session belongs to its workspace; an API client that was moved begins anew.
	if cl.session != nil && (p.CleanStart || cl.session.Workspace != grants.Workspace()) { // [MQTT-3.1.2-4]
		after = s.endSession(cl, "clean_start")
	}
	will := s.cancelWill(cl)
	s.agenda.cancel(cl.expiry)
	cl.expiry = nil
	if s.shared != nil {
		cl.session = c.resumed
	}
	connack.SessionPresent = present || s.shared == nil && cl.session != nil // [MQTT-3.2.2-2], [MQTT-3.2.2-3]
	if cl.session == nil {                                                   // [MQTT-3.1.2-6]
		cl.session = &session.Session{ClientID: cl.id, Identity: grants.ClientID(), Workspace: grants.Workspace(),
			Persistent: expiry > 0, Position: position}
		cl.session.Queue.Limit = s.limits.MaxSubscriberQueue
	}
	se := cl.session // [MQTT-3.1.2-5]
	se.Expiry = expiry
	se.Window.Limit = int(min(p.ReceiveMaximum, s.limits.ReceiveMaximum, session.MaxWindow)) // [MQTT-3.3.4-9]

	c.session = se
	c.zeroExpiry = p.SessionExpiry == 0
	c.grants, c.will = grants, p.Will
	c.since = time.Now()
	c.aliasOut.Maximum = min(p.TopicAliasMaximum, s.options.Config.Broker.Features.TopicAliases)
	c.aliasIn.Maximum = s.options.Config.Broker.Features.TopicAliases
	c.resume = se.Window.Entries() // [MQTT-4.4.0-1]
	c.tail = false
	cl.conn, cl.last = c, c
	cl.online.Store(true)
	c.out.answer(mqtt.CONNACK, func(dst []byte) []byte { return connack.AppendLimited(dst, c.version, c.maxPacket) })
	if s.shared != nil {
		for _, sub := range se.Subscriptions() {
			c.ws.add(cl, se, sub)
			s.shared.own.add(c, sub, false)
		}
		if c.clustered() {
			c.keepCursor()
		}
	}
	c.cover()
	c.scheduleRecheck()
	c.watchKeepAlive()
	for _, w := range c.waiting {
		if sub := se.Subscription(w.Filter); sub != nil {
			c.offerRetained(sub, w.From, w.Newest)
		}
	}
	c.waiting = nil
	c.refill()
	c.start()
	cl.lock.Unlock()
	c.nc.Established()
	if after != nil {
		after()
	}
	if will != nil {
		if p.CleanStart {
			s.publishWill(will) // its session has ended, before its delay was over [MQTT-3.1.2-8]
		} else {
			s.metrics.WillsWithheld.Inc() // [MQTT-3.1.3-9]
		}
	}
	return nil
}

// sessionExpiry is the interval in force, in seconds: what the client asked for,
// at most maxSessionExpiry. MQTT 3 knows only "with the connection" and "for
// ever", of which the latter is maxSessionExpiry here.
func (c *connection) sessionExpiry(p *mqtt.Connect) uint32 {
	longest := c.server.longestExpiry()
	if p.Version >= mqtt.V5 {
		return min(p.SessionExpiry, longest)
	}
	if p.CleanStart {
		return 0
	}
	return longest
}

// longestExpiry is maxSessionExpiry in seconds.
func (s *Server) longestExpiry() uint32 { return uint32(s.limits.MaxSessionExpiry / time.Second) }

// connack announces exactly what this broker offers and what differs from what
// the client asked. Session Present is the caller's to set.
func (c *connection) connack(p *mqtt.Connect, grants *access.Grants, expiry uint32, assigned string) *mqtt.Connack {
	s := c.server
	features := s.options.Config.Broker.Features
	a := &mqtt.Connack{Code: mqtt.Success, AssignedClientID: assigned}
	keepAlive := p.KeepAlive
	if longest := uint16(s.limits.MaxKeepAlive / time.Second); p.Version >= mqtt.V5 && (keepAlive == 0 || keepAlive > longest) {
		keepAlive = longest
		a.ServerKeepAlive = &keepAlive // [MQTT-3.1.2-21]
	}
	c.keepAlive = time.Duration(keepAlive) * time.Second * 3 / 2
	if p.Version < mqtt.V5 {
		return a
	}
	if expiry != p.SessionExpiry {
		a.SessionExpiry = &expiry
	}
	a.ReceiveMaximum = s.limits.ReceiveMaximum
	a.MaximumPacketSize = uint32(s.options.Config.Broker.MaxPacketBytes)
	a.TopicAliasMaximum = features.TopicAliases
	a.SubscriptionIDsAvailable, a.SharedAvailable = &features.SubscriptionIdentifiers, &features.SharedSubscriptions
	if p.RequestResponseInformation { // [MQTT-3.1.2-28]
		a.ResponseInformation = s.grammar.Data(grants.Workspace(), "")
	}
	return a
}

// refuse answers a refused CONNECT and closes [MQTT-3.2.2-7].
func (c *connection) refuse(p *mqtt.Connect, r *refusal) {
	s := c.server
	if r.label == "" {
		return
	}
	s.metrics.ConnectRefused.WithLabelValues(r.label).Inc()
	s.log.Debug("embedded broker: connection refused", "reason", r.label, "detail", r.detail,
		"client_id", p.ClientID, "user", p.Username, "remote", c.nc.RemoteAddr().String())
	if r.silent {
		return
	}
	v := p.Version // of an unsupported one: the version whose CONNACK the sender can read
	if v < mqtt.V5 && !hasConnectReturn(r.code) {
		return // [MQTT-3.2.2-6 of 3.1.1]
	}
	a := &mqtt.Connack{Code: r.code, ReasonString: publicReason(r)} // Session Present 0 [MQTT-3.2.2-6]
	_ = c.nc.SetWriteDeadline(time.Now().Add(closingTime))
	if _, err := c.nc.Write(a.AppendLimited(nil, v, p.MaximumPacketSize)); err != nil {
		return
	}
	if tcp := c.nc.TCP(); tcp != nil {
		_ = tcp.CloseWrite()
		c.reader.drain(time.Now().Add(closingTime)) // [MQTT-3.1.4-6]
	}
}

// hasConnectReturn reports whether MQTT 3 has a return code for what went wrong;
// for anything else the connection is closed without a CONNACK.
func hasConnectReturn(code mqtt.ReasonCode) bool {
	switch code {
	case mqtt.MalformedPacket, mqtt.ProtocolError, mqtt.PacketTooLarge, mqtt.TopicNameInvalid:
		return false
	}
	return true
}

// publicReason is what the client is told: never why a credential was refused.
func publicReason(r *refusal) string {
	switch r.label {
	case "bad_credentials", "throttled", "client_id_in_use":
		return ""
	}
	return r.detail
}
