package ingest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/broker/model"
	"maestrohub.io/uns/broker/topic"
	"maestrohub.io/uns/broker/value"
)

// address decides whose inbox a name is and whether the client may use it.
func (i *Ingest) address(name string, g *access.Grants) (topic.Inbox, *model.Workspace, Outcome) {
	if err := topic.ValidateName(name); err != nil {
		return topic.Inbox{}, nil, Outcome{Refusal: TopicInvalid, Detail: err.Error()}
	}
	in, err := i.o.Grammar.ParseInbox(name)
	if err != nil {
		detail := err.Error()
		var grammar *topic.GrammarError
		if errors.As(err, &grammar) {
			inbox := grammar.Format
			if g != nil {
				inbox = i.inboxOf(g)
			}
			detail = grammar.Reason + "; publish to " + inbox
		}
		return in, nil, Outcome{Refusal: NotInbox, Detail: detail}
	}
	if g == nil {
		return in, nil, Outcome{Refusal: OtherWorkspace, Detail: fmt.Sprintf("workspace %q is not this client's", in.Workspace)}
	}
	if in.Workspace != g.Workspace() {
		return in, nil, Outcome{Refusal: OtherWorkspace, Detail: fmt.Sprintf("workspace %q is not this client's; publish to %s", in.Workspace, i.inboxOf(g))}
	}
	if in.Client != g.ClientID() {
		return in, nil, Outcome{Refusal: OtherInbox, Detail: fmt.Sprintf("inbox of client %q, signed in as %q; publish to %s", in.Client, g.ClientID(), i.inboxOf(g))}
	}
	if n := len(name); i.o.MaxTopicBytes > 0 && n > i.o.MaxTopicBytes {
		return in, nil, Outcome{Refusal: TopicInvalid, Detail: fmt.Sprintf("topic of %d bytes; at most %d are allowed", n, i.o.MaxTopicBytes)}
	}
	if i.o.MaxTopicLevels > 0 {
		if n := topic.Levels(name); n > i.o.MaxTopicLevels {
			return in, nil, Outcome{Refusal: TopicInvalid, Detail: fmt.Sprintf("topic of %d levels; at most %d are allowed", n, i.o.MaxTopicLevels)}
		}
	}
	if !g.MayPublish(in.Topic) {
		return in, nil, Outcome{Refusal: NotGranted, Detail: fmt.Sprintf("client %q may not publish to %q", g.ClientID(), in.Topic)}
	}
	ws, ok := i.o.Model().Workspace(in.Workspace)
	if !ok {
		return in, nil, Outcome{Refusal: OtherWorkspace, Detail: fmt.Sprintf("workspace %q is not in the model", in.Workspace)}
	}
	return in, ws, Outcome{}
}

// inboxOf is where a client publishes to, for who reads a refusal.
func (i *Ingest) inboxOf(g *access.Grants) string {
	return i.o.Grammar.Inbox(g.Workspace(), g.ClientID(), "<topic>")
}

// admit takes a publish through the chain up to the historian: inbox, grant,
// payload, schema, range, quality, thresholds. The entry's value is complete but
// for its Position.
func (i *Ingest) admit(p *Publish) (*lane, *entry, Outcome) {
	if !i.serves() {
		return nil, nil, Outcome{Refusal: Shed, Detail: fenced}
	}
	in, ws, refused := i.address(p.Name, p.Grants)
	if refused.Refusal != 0 {
		return nil, nil, refused
	}
	if n := len(p.Payload); i.o.MaxPayloadBytes > 0 && n > i.o.MaxPayloadBytes {
		return nil, nil, Outcome{Refusal: TooLarge, Detail: fmt.Sprintf("payload of %d bytes; at most %d are allowed", n, i.o.MaxPayloadBytes)}
	}
	binding := ws.Topic(in.Topic)
	now := time.Now().UnixNano()
	e := &entry{done: p.Done, slot: p.Slot, qos: p.QoS, ordered: p.Ordered}
	e.v = &e.own
	*e.v = value.Value{
		// Nothing here aliases p.Name.
		Workspace: p.Grants.Workspace(), Publisher: p.Grants.ClientID(), ClientID: p.ClientID,
		Timestamp: p.Timestamp, RowID: p.RowID, Received: now,
		Payload: p.Payload, Body: p.Payload, Properties: p.Properties,
		QoS: max(p.QoS, i.o.LiveQoS),
		// The device's own retain flag is cleared: only the model retains.
		Retain: binding.Retain,
	}
	v := e.v
	reading, wrong := binding.Read(p.Payload)
	switch {
	case wrong == nil:
		v.Kind, v.Body, v.Quality = reading.Kind, reading.Body, reading.Quality
		if reading.Timed {
			v.Timestamp, v.Timed = reading.Timestamp, true
		}
		if binding.Alerts && reading.Quality.Grade() != value.Bad {
			e.watched = true
			e.level, e.threshold = binding.Alarm(reading)
		}
	case len(p.Payload) == 0 && binding.Type == model.Opaque:
		// Zero bytes are bytes; on a retaining topic they delete what is retained, too.
		v.Kind, v.Quality = value.Opaque, value.Good
	case len(p.Payload) == 0 && binding.Retain:
		e.clear = true
		v.Quality = value.Good
	default:
		return nil, nil, Outcome{Refusal: violation(wrong.Rule), Detail: wrong.Detail}
	}
	v.Name = i.o.Grammar.Data(in.Workspace, in.Topic)
	v.Topic = v.Name[len(v.Name)-len(in.Topic):]
	if v.Timed {
		v.RowID = 0
	} else {
		if v.Timestamp == 0 {
			v.Timestamp = now
		}
		for v.RowID == 0 {
			v.RowID = rand.Uint64()
		}
	}
	if refused := i.storable(e, now); refused.Refusal != 0 {
		return nil, nil, refused
	}
	if p.HasExpiry {
		v.Expires = now + int64(p.Expiry)*int64(time.Second)
	}
	e.size = entryBytes + variableBytes(v)
	l := i.lane(v.Workspace)
	if l == nil {
		return nil, nil, Outcome{Refusal: Shed, Detail: i.closedBy()}
	}
	return l, e, Outcome{}
}
