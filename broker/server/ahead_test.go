package server

import (
	"testing"

	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/metrics"
	"maestrohub.io/uns/broker/session"
	"maestrohub.io/uns/broker/value"
)

// An entry goes ahead of its record only where no other may hold its identifier, and
// whoever resumes the session knows of which entries that may have happened.
func TestWhatGoesAheadOfItsRecord(t *testing.T) {
	const span = 100
	logged := func(sequence uint64) *session.Item {
		return &session.Item{Value: &value.Value{}, Effect: session.Effect{QoS: 2}, Source: session.FromLog, Position: sequence}
	}
	holding := func(cursor *cluster.Cursor, valid bool) *connection {
		c := &connection{session: &session.Session{}, held: &holding{record: &cluster.Session{}}}
		c.held.ahead = ahead{span: span, kept: coverageOf(cursor)}
		c.held.ahead.restore(cursor, valid)
		return c
	}
	stored := func(d ...cluster.Delivery) *cluster.Cursor {
		return &cluster.Cursor{Position: cluster.Position{Sequence: 1000}, Ahead: true, Deliveries: d}
	}
	fixed := cluster.Delivery{Sequence: 950, PacketID: session.FixedID(950, span), QoS: 2, Progress: cluster.Released}
	inTurn := cluster.Delivery{Sequence: 5, PacketID: 7, QoS: 2}
	settled := stored()
	settled.Ahead = false
	recorded := stored()
	recorded.Recorded = true
	for _, test := range []struct {
		name   string
		cursor *cluster.Cursor
		valid  bool
		// last is the last entry with a fixed identifier, begunTo the last that may have been
		// sent; 0: none.
		last, begunTo uint64
	}{
		{"nothing is listed", stored(), true, 1099, 1099},
		{"the lowest listed under a fixed identifier counts", stored(fixed), true, 1049, 1049},
		{"one listed under an identifier given in turn does not", stored(inTurn), true, 1099, 1099},
		{"a connection that ended settled has sent nothing more", settled, true, 1099, 0},
		{"recorded: only what may have been sent keeps its identifier", recorded, true, 1099, 1099},
		{"of another log: identifiers are given in turn", stored(), false, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := holding(test.cursor, test.valid)
			for sequence := uint64(1001); sequence < 1300; sequence++ {
				is, begun := c.fixed(logged(sequence))
				if is != (sequence <= test.last) || begun != (sequence <= test.begunTo) {
					t.Fatalf("entry %d: fixed %v, begun %v; want fixed up to %d, begun up to %d", sequence, is, begun, test.last, test.begunTo)
				}
			}
			for name, it := range map[string]*session.Item{
				"QoS 1":    {Value: &value.Value{}, Effect: session.Effect{QoS: 1}, Source: session.FromLog, Position: 1001},
				"a share":  {Value: &value.Value{}, Effect: session.Effect{QoS: 2}, Source: session.FromLog, Position: 1001, Share: "g/#"},
				"retained": {Value: &value.Value{}, Effect: session.Effect{QoS: 2}, Source: session.FromRetained},
				"live":     {Value: &value.Value{}, Effect: session.Effect{QoS: 2}},
			} {
				if is, begun := c.fixed(it); is || begun {
					t.Errorf("%s has a fixed identifier", name)
				}
			}
		})
	}
}

// Where the log has dropped what may have been sent, nothing more goes ahead.
func TestAGapInWhatMayHaveBeenSent(t *testing.T) {
	c := &connection{server: &Server{metrics: metrics.New()}, session: &session.Session{Position: 1050}, held: &holding{record: &cluster.Session{}}}
	c.held.ahead = ahead{span: 100, begunTo: 1049}
	if c.missed(1); c.held.ahead.recorded {
		t.Error("a gap behind what may have been sent")
	}
	c.session.Position = 1049
	if c.missed(1); !c.held.ahead.recorded {
		t.Error("a gap in what may have been sent")
	}
}
