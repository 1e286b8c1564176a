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
	// Missed counts entries the log dropped before the session read them.
	Missed uint64
	// Deliveries are those beyond Position that are unfinished, or finished out
	// of order.
	Deliveries []Delivery
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
}

// Encode returns the record in the floor's format.
func (c *Cursor) Encode(floor Format) []byte {
	a := record(floor)
	a.id(c.Session)
	a.id(c.Writer)
	a.position(c.Position)
	a.uint(c.Missed)
	a.uint(uint64(len(c.Deliveries)))
	for _, d := range c.Deliveries {
		a.uint(d.Sequence)
		if d.Sequence == 0 {
			a.string(d.Topic)
		}
		a.uint(uint64(d.PacketID))
		a.byte(d.QoS<<4 | byte(d.Progress))
	}
	return a.b
}

// DecodeCursor reads a Cursor.
func DecodeCursor(b []byte) (*Cursor, error) {
	p, c := parse("cursor record", b), &Cursor{}
	c.Session = p.id("session")
	c.Writer = p.id("writer")
	c.Position = p.position("position")
	c.Missed = p.uint("missed")
	n := p.count("deliveries", 3)
	if n > 0 {
		c.Deliveries = make([]Delivery, 0, n)
	}
	for range n {
		var d Delivery
		if d.Sequence = p.uint("sequence"); d.Sequence == 0 {
			d.Topic = p.string("topic")
		}
		d.PacketID = uint16(p.limited("packet id", 65535))
		v := p.enum("progress", 2<<4|byte(Done))
		d.QoS, d.Progress = v>>4, Progress(v&15)
		if d.Progress > Done {
			p.fail("progress")
		}
		c.Deliveries = append(c.Deliveries, d)
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
