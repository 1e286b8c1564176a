package server

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/broker/session"
	"maestrohub.io/uns/broker/topic"
	"maestrohub.io/uns/broker/value"
)

// onSubscribe acts on a SUBSCRIBE: its filters in order, one SUBACK for all
// [MQTT-3.8.4-5], then the retained messages.
func (c *connection) onSubscribe(h mqtt.Header, body []byte) error {
	var p mqtt.Subscribe
	if err := p.Decode(c.version, h, body); err != nil {
		return err
	}
	codes := make([]mqtt.ReasonCode, len(p.Filters))
	whys := make([]string, len(p.Filters))
	var retained []*session.Subscription
	if err := c.recordAhead(func() bool { return c.lowers(p.Filters) }); err != nil {
		return err
	}
	defer c.goAhead()
	asked := c.noteSent()
	defer asked.over()
	for i, f := range p.Filters {
		did, err := c.subscribe(f, p.SubscriptionID)
		if err != nil {
			return err
		}
		codes[i], whys[i] = did.code, did.why
		if sub := did.sub; sub != nil && sub.Share == "" && (f.RetainHandling == 0 || f.RetainHandling == 1 && did.isNew) { // [MQTT-3.3.1-9..11]
			retained = append(retained, sub)
		}
	}
	// Values that were matched before these subscriptions are acknowledged before the
	// SUBACK, so that it means what it says of those acknowledged after.
	settled := c.server.ingest.Settled(c.session.Workspace)
	if c.server.shared != nil {
		asked.landing, c.landing = c.landing, nil
		named := make([]string, len(p.Filters))
		for i, f := range p.Filters {
			named[i] = f.Filter
		}
		var err error
		if asked.late, err = c.awaitSubscribed(c.server.ctx, asked.landing, named); err != nil {
			return fmt.Errorf("save the session's subscriptions: %w", err)
		}
	}
	timeout, cancel := context.WithTimeout(c.server.ctx, subscribeWait)
	inTime := before(timeout.Done(), settled)
	if inTime && c.server.shared != nil {
		inTime = before(timeout.Done(), c.server.shared.owed.settled())
	}
	if !inTime {
		c.server.metrics.SubscribeIndexWaitTimeouts.Inc()
	}
	if c.server.shared != nil && len(retained) > 0 {
		asked.behind = c.server.options.Retained.CatchUp(timeout) != nil
	}
	cancel()
	if err := c.endEarlier(p.Filters); err != nil {
		return err
	}
	if c.version < mqtt.V5 {
		for i, code := range codes {
			if code >= mqtt.UnspecifiedError {
				if c.version == mqtt.V31 {
					// MQTT 3.1 cannot say no in a SUBACK; saying yes would be a lie.
					return &mqtt.Error{Code: code, Detail: "subscription refused: " + p.Filters[i].Filter + ": " + whys[i]}
				}
				codes[i] = mqtt.UnspecifiedError // [MQTT-3.9.3-2 of 3.1.1]
			}
		}
	}
	suback := mqtt.Suback{PacketID: p.PacketID, Codes: codes} // [MQTT-3.8.4-1], [MQTT-3.8.4-2]
	if c.version >= mqtt.V5 && c.problemInfo {                // [MQTT-3.1.2-29]
		suback.ReasonString = refusedFilters(p.Filters, whys)
	}
	if err := c.answer(mqtt.SUBACK, func(dst []byte) []byte { return suback.AppendLimited(dst, c.version, c.maxPacket) }); err != nil {
		return err
	}
	for _, sub := range retained {
		asked.sendRetained(sub)
	}
	return nil
}

// before waits for done, and reports whether it came before late.
func before(late, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
	}
	select {
	case <-done:
		return true
	case <-late:
		return false
	}
}

// subscribed is what became of one filter.
type subscribed struct {
	sub   *session.Subscription // nil: refused
	isNew bool
	code  mqtt.ReasonCode
	why   string // it was refused
}

// subscribe makes one subscription; an error closes the connection.
func (c *connection) subscribe(f mqtt.Subscription, id uint32) (subscribed, error) {
	s := c.server
	features := s.options.Config.Broker.Features
	share, bare, shared, err := topic.ParseShare(f.Filter)
	if err == nil {
		err = topic.ValidateFilter(bare)
	}
	if err != nil { // [MQTT-4.7.1-1], [MQTT-4.8.2-2]
		return subscribed{}, &mqtt.Error{Code: mqtt.MalformedPacket, Statement: "MQTT-4.7.1-1", Detail: err.Error()}
	}
	grants := c.currentGrants()
	refused := func(reason string, code mqtt.ReasonCode, why string, a ...any) (subscribed, error) {
		s.metrics.SubscriptionsRefused.WithLabelValues(reason).Inc()
		return subscribed{code: code, why: fmt.Sprintf(why, a...)}, nil
	}
	switch {
	case shared && !features.SharedSubscriptions:
		return refused("shared_unavailable", mqtt.SharedSubscriptionsNotSupported, "shared subscriptions are switched off (features.sharedSubscriptions)")
	case id != 0 && !features.SubscriptionIdentifiers:
		return refused("identifier_unavailable", mqtt.SubscriptionIdentifiersNotSupported, "subscription identifiers are switched off (features.subscriptionIdentifiers)")
	case len(f.Filter) > s.limits.MaxTopicBytes:
		return refused("filter_invalid", mqtt.TopicFilterInvalid, "filter of %d bytes; at most %d are allowed (maxTopicBytes)", len(f.Filter), s.limits.MaxTopicBytes)
	case topic.Levels(bare) > s.limits.MaxTopicLevels:
		return refused("filter_invalid", mqtt.TopicFilterInvalid, "filter of %d levels; at most %d are allowed (maxTopicLevels)", topic.Levels(bare), s.limits.MaxTopicLevels)
	case !grants.ReadsAny(bare):
		return refused("not_authorized", mqtt.NotAuthorized, "%s", grants.Unread(bare))
	}
	sub := &session.Subscription{Filter: f.Filter, Bare: bare, Share: share, QoS: f.QoS, NoLocal: f.NoLocal,
		RetainAsPublished: f.RetainAsPublished, ID: id, Covered: grants.ReadsAll(bare)}
	w := c.ws
	if c.session.Persistent {
		// The last known position, taken before the subscription is known to anybody:
		// too low is harmless, too high would lose values.
		ctx, cancel := context.WithTimeout(s.ctx, subscribeWait)
		next, err := w.openFeed(ctx)
		cancel()
		if err != nil {
			s.log.Error("embedded broker: subscription refused, no session log", "workspace", w.slug, "client_id", c.session.ClientID, "error", err)
			return refused("store", mqtt.QuotaExceeded, "no session log takes it now; subscribe again")
		}
		sub.Since = next
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.ended {
		return subscribed{}, errEnded
	}
	if c.session.Subscription(f.Filter) == nil && c.session.Len() >= s.limits.MaxSubscriptionsPerClient {
		return refused("quota", mqtt.QuotaExceeded, "the session has %d subscriptions, as many as it may (maxSubscriptionsPerClient)", c.session.Len())
	}
	replaced := c.session.Subscribe(sub) // [MQTT-3.8.4-3]
	c.verdicts = topicVerdicts{}
	w.add(c.client, c.session, sub)
	if s.shared != nil {
		c.landing = append(c.landing, s.shared.own.add(c, sub, true)...)
		if replaced != nil {
			s.shared.own.remove(c, replaced, sub)
		}
	}
	return subscribed{sub: sub, isNew: replaced == nil, code: mqtt.ReasonCode(f.QoS)}, nil // [MQTT-3.8.4-7]
}

// filtersNamed bounds how many refused filters a SUBACK names, filterBytes each of them.
const (
	filtersNamed = 5
	filterBytes  = 128
)

// refusedFilters is one text for a SUBACK: why filters were refused. It says which ones,
// where there are others; "" if none was.
func refusedFilters(filters []mqtt.Subscription, whys []string) string {
	if len(filters) == 1 {
		return whys[0]
	}
	var parts []string
	refused := 0
	for i, why := range whys {
		if why == "" {
			continue
		}
		if refused++; refused > filtersNamed {
			continue
		}
		named := filters[i].Filter
		if len(named) > filterBytes {
			named = strings.ToValidUTF8(named[:filterBytes], "") + "…"
		}
		parts = append(parts, fmt.Sprintf("%q: %s", named, why))
	}
	if more := refused - filtersNamed; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more were refused", more))
	}
	return strings.Join(parts, ". ")
}

// endEarlier finds out up to where the session log's entries are those of subscriptions
// that were just replaced: to its end, now that what was matched with them is in it.
func (c *connection) endEarlier(filters []mqtt.Subscription) error {
	c.lock.Lock()
	var open []*session.Earlier
	var named []string
	for _, f := range filters {
		if sub := c.session.Subscription(f.Filter); sub != nil && sub.Earlier != nil && sub.Earlier.Until == session.Live {
			open, named = append(open, sub.Earlier), append(named, f.Filter)
		}
	}
	c.lock.Unlock()
	if len(open) == 0 {
		return nil
	}
	next, err := c.ws.openFeed(c.server.ctx)
	if err == nil && c.clustered() {
		next, err = c.ws.feed.Load().mark(c.server.ctx)
	}
	if err != nil {
		return fmt.Errorf("find the end of what replaced subscriptions are for: %w", err)
	}
	c.lock.Lock()
	for _, e := range open {
		e.Until = next
	}
	c.lock.Unlock()
	if c.clustered() {
		if _, err := c.saveSession(c.server.ctx, named); err != nil {
			return fmt.Errorf("save the session's subscriptions: %w", err)
		}
	}
	return nil
}

// offerRetained sends, in the order of their topics, the retained messages that a
// subscription matches from a topic on, but for those newer than a position. A message
// no newer than one of its topic in a list of those that went out is left out. The lock is
// held.
func (c *connection) offerRetained(sub *session.Subscription, from string, newest uint64, out ...map[string]uint64) (offered []*value.Value) {
	found := slices.DeleteFunc(c.ws.arriving.match(sub.Bare), func(v *value.Value) bool {
		return v.Name < from || v.Position > newest || v.Workspace != c.session.Workspace || !sub.Covered && !c.grants.MayRead(v.Name) ||
			sub.NoLocal && v.ClientID == c.client.id || // [MQTT-3.8.3-3]
			slices.ContainsFunc(out, func(sent map[string]uint64) bool { newer, is := sent[v.Name]; return is && newer >= v.Position })
	})
	slices.SortFunc(found, func(a, b *value.Value) int { return strings.Compare(a.Name, b.Name) })
	of := &session.Retained{Filter: sub.Filter}
	for _, v := range found {
		of.Newest = max(of.Newest, v.Position)
	}
	for _, v := range found {
		e := session.Effect{QoS: min(v.QoS, sub.QoS), Retain: true, Covered: sub.Covered}
		if sub.ID != 0 {
			e.IDs = []uint32{sub.ID}
		}
		c.offer(session.Item{Value: v, Effect: e, Source: session.FromRetained, Of: of}, nil)
	}
	return found
}

// onUnsubscribe acts on an UNSUBSCRIBE [MQTT-3.10.4-6].
func (c *connection) onUnsubscribe(h mqtt.Header, body []byte) error {
	var p mqtt.Unsubscribe
	if err := p.Decode(c.version, h, body); err != nil {
		return err
	}
	codes := make([]mqtt.ReasonCode, len(p.Filters))
	if err := c.recordAhead(func() bool { return c.ends(p.Filters) }); err != nil {
		return err
	}
	defer c.goAhead()
	w := c.ws
	left := inheritance{client: c.session.ClientID}
	for i, filter := range p.Filters {
		c.lock.Lock()
		if c.ended {
			c.lock.Unlock()
			return errEnded
		}
		sub := c.session.Unsubscribe(filter) // [MQTT-3.10.4-1]
		var lost []session.Item
		if sub != nil {
			w.remove(c.session, sub) // [MQTT-3.10.4-2]
			if c.server.shared != nil {
				c.server.shared.own.remove(c, sub, nil)
			}
			if sub.Share != "" {
				lost = c.session.Queue.Remove(sub.Key())
			}
		}
		if sub != nil && sub.Share != "" && c.session.Persistent {
			// What it was sent already is its own to finish [MQTT-3.10.4-3].
			if len(left.keys) == 0 {
				left.from = c.session.Position
			}
			left.keys, left.position = append(left.keys, sub.Key()), left.from
		}
		c.lock.Unlock()
		if sub == nil {
			codes[i] = mqtt.NoSubscriptionExisted
			continue
		}
		if sub.Share != "" {
			w.redirect(sharedItems(lost), c.session.ClientID)
		}
	}
	if c.clustered() {
		revision, err := c.saveSession(c.server.ctx, p.Filters)
		if err != nil {
			return fmt.Errorf("save the session's subscriptions: %w", err)
		}
		if len(left.keys) > 0 {
			if left.last, err = c.server.lastChosen(c.server.ctx, w, revision); err != nil {
				return fmt.Errorf("find what the session was chosen for: %w", err)
			}
		}
	}
	if len(left.keys) > 0 {
		w.inheritFrom(left)
	}
	unsuback := mqtt.Unsuback{PacketID: p.PacketID, Codes: codes} // [MQTT-3.10.4-4]
	return c.answer(mqtt.UNSUBACK, func(dst []byte) []byte { return unsuback.AppendLimited(dst, c.version, c.maxPacket) })
}
