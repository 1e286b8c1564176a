package cluster

// Progress is how far a delivery has come.
type Progress uint8

const (
	// Sent: its PUBLISH may have been sent.
	Sent Progress = iota
	// Released: its PUBREL may have been sent, so the PUBLISH never again.
	Released
	// Done: finished, before one in front of it was.
	Done
)

// Cursor is everything outbound of a persistent session, in state.SessionCursor,
// keyed by client id. It is one record, written whole: no order of two writes
// would keep a position and the packet ids at it together.
type Cursor struct {
	Session ID
	// Writer is the connection that wrote it: one whose write met a conflict tells its own
	// earlier write from a write of who took over, which begins with the same content.
	Writer ID
	// Position is the last entry before which everything is finished.
	Position Position
	// Ahead: entries beyond Position may have been sent at QoS 2 with no record of it,
	// each under the packet id that follows from its sequence.
	Ahead bool
	// Recorded: from here on no entry is sent so. The log has dropped some that may
	// have been, and the client may hold their packet ids for ever.
	Recorded bool
	// Missed counts entries the log dropped before the session read them.
	Missed uint64
	// Deliveries are those beyond Position that are unfinished, or finished out
	// of order.
	Deliveries []Delivery
	// Waiting are the retained messages that a SUBSCRIBE has found and that have not been
	// sent yet.
	Waiting []Waiting
}

// Waiting are retained messages of one subscription, in the order of their topics.
type Waiting struct {
	Filter string
	// From is the topic of the first that waits.
	From string
	// Newest is the newest position that was found: what is beyond it is in the log.
	Newest uint64
}

// Delivery is one message on its way to the client.
type Delivery struct {
	// Sequence is its entry in the log; 0 for a retained message, which is in
	// no log and is named by its topic.
	Sequence uint64
	Topic    string
	PacketID uint16 // 0 once done
	QoS      byte
	Progress Progress
	// Subscription is the identifier of the subscription a retained message is sent
	// for, 0 if it has none. Those of an entry of the log follow from the session's
	// subscriptions.
	Subscription uint32
	// Share is the key of the shared subscription whose copy it is; "" if none.
	Share string
}

// shared marks a delivery of a shared subscription, in the byte of QoS and progress.
const shared = 1 << 7

// Encode returns the record in the floor's format.
func (c *Cursor) Encode(floor Format) []byte {
	a := record(floor)
	a.id(c.Session)
	a.id(c.Writer)
	a.position(c.Position)
	a.flags(c.Ahead, c.Recorded)
	a.uint(c.Missed)
	a.uint(uint64(len(c.Deliveries)))
	for _, d := range c.Deliveries {
		a.uint(d.Sequence)
		if d.Sequence == 0 {
			a.string(d.Topic)
			a.uint(uint64(d.Subscription))
		}
		a.uint(uint64(d.PacketID))
		how := d.QoS<<4 | byte(d.Progress)
		if d.Share == "" {
			a.byte(how)
			continue
		}
		a.byte(how | shared)
		a.string(d.Share)
	}
	a.uint(uint64(len(c.Waiting)))
	for _, w := range c.Waiting {
		a.string(w.Filter)
		a.string(w.From)
		a.uint(w.Newest)
	}
	return a.b
}

// DecodeCursor reads a Cursor.
func DecodeCursor(b []byte) (*Cursor, error) {
	p, c := parse("cursor record", b), &Cursor{}
	c.Session = p.id("session")
	c.Writer = p.id("writer")
	c.Position = p.position("position")
	sending := p.flags("sending", 2)
	c.Ahead, c.Recorded = sending[0], sending[1]
	c.Missed = p.uint("missed")
	n := p.count("deliveries", 3)
	if n > 0 {
		c.Deliveries = make([]Delivery, 0, n)
	}
	for range n {
		var d Delivery
		if d.Sequence = p.uint("sequence"); d.Sequence == 0 {
			d.Topic = p.string("topic")
			d.Subscription = uint32(p.limited("subscription", 1<<32-1))
		}
		d.PacketID = uint16(p.limited("packet id", 65535))
		v := p.byte("progress")
		d.QoS, d.Progress = v&^shared>>4, Progress(v&15)
		if d.QoS > 2 || d.Progress > Done {
			p.fail("progress")
		}
		if v&shared != 0 {
			if d.Share = p.string("share"); d.Share == "" {
				p.fail("share")
			}
		}
		c.Deliveries = append(c.Deliveries, d)
	}
	for range p.count("waiting", 3) {
		c.Waiting = append(c.Waiting, Waiting{p.string("filter"), p.string("from"), p.uint("newest")})
	}
	if err := p.end(); err != nil {
		return nil, err
	}
	return c, nil
}

// Received are the packet ids of QoS 2 PUBLISHes of a persistent session that
// were received and not yet released, in state.SessionQoS2, keyed by client id.
type Received struct {
	Session   ID
	Writer    ID // as in Cursor
	PacketIDs []uint16
}

// Encode returns the record in the floor's format.
func (r *Received) Encode(floor Format) []byte {
	a := record(floor)
	a.id(r.Session)
	a.id(r.Writer)
	a.uint(uint64(len(r.PacketIDs)))
	for _, id := range r.PacketIDs {
		a.b = append(a.b, byte(id>>8), byte(id))
	}
	return a.b
}

// DecodeReceived reads a Received.
func DecodeReceived(b []byte) (*Received, error) {
	p, r := parse("QoS 2 record", b), &Received{}
	r.Session = p.id("session")
	r.Writer = p.id("writer")
	n := p.count("packet ids", 2)
	if n > 0 {
		r.PacketIDs = make([]uint16, n)
	}
	for i := range r.PacketIDs {
		r.PacketIDs[i] = uint16(p.byte("packet id"))<<8 | uint16(p.byte("packet id"))
		if r.PacketIDs[i] == 0 {
			p.fail("packet id")
		}
	}
	if err := p.end(); err != nil {
		return nil, err
	}
	return r, nil
}
