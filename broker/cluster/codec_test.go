package cluster

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
	"time"

	"maestrohub.io/uns/broker/value"
)

func id(n byte) ID { return ID{n, 0xfe, 15: n} }

func life1(replica string, n byte) Incarnation { return Incarnation{replica, id(n)} }

// records are one of each kind with every field set, and how it is read back.
var records = []struct {
	name   string
	record any
	encode func(Format) []byte
	decode func([]byte) (any, error)
}{}

func init() {
	add := func(name string, r any, encode func(Format) []byte, decode func([]byte) (any, error)) {
		records = append(records, struct {
			name   string
			record any
			encode func(Format) []byte
			decode func([]byte) (any, error)
		}{name, r, encode, decode})
	}
	e := Entry{Incarnation: life1("uns-0", 1), Number: 77, Phase: Stopping, Beat: 1 << 40, Oldest: 1, Newest: 9,
		Refusing: true, Applied: Applied{1 << 33, 5}, Mesh: "uns-0.uns:7884"}
	add("entry", e, e.Encode, func(b []byte) (any, error) { return DecodeEntry(b) })
	o := Owner{Connection: id(3), Incarnation: life1("uns-1", 2), Identity: "pump", Workspace: "plant", Ending: Lost, Ended: -5,
		Before: []Claim{{id(5), life1("uns-0", 6)}, {id(7), life1("uns-2", 8)}}}
	add("owner", o, o.Encode, func(b []byte) (any, error) { return DecodeOwner(b) })
	w := &Will{Client: "c/ü+#", Connection: id(4), Incarnation: life1("uns-2", 5), Identity: "i", Workspace: "w",
		Delay: 1<<32 - 1, Expiry: 60, Topic: "t", Payload: []byte("off"), QoS: 2, Retain: true, MessageExpiry: 7, HasExpiry: true,
		Properties: value.Properties{PayloadFormat: 1, HasPayloadFormat: true, ContentType: "", HasContentType: true, ResponseTopic: "r",
			CorrelationData: []byte{}, User: []value.UserProperty{{Key: "a", Value: "1"}, {Key: "a", Value: ""}}},
		By: life1("uns-0", 6), Timestamp: 1234567890123456789}
	add("will", w, w.Encode, func(b []byte) (any, error) { return DecodeWill(b) })
	s := &Session{ID: id(7), Writer: id(9), Identity: "i", Workspace: "w", Expiry: 3600, Subscriptions: []Subscription{
		{Filter: "$share/g/a/#", QoS: 1, NoLocal: false, RetainAsPublished: true, ID: 268435455, Since: Position{9, 10}},
		{Filter: "b/+", QoS: 2, NoLocal: true}, {Filter: "c", ID: 1, Earlier: Earlier{QoS: 2, NoLocal: true, Until: Position{11, 12}}},
		{Filter: "d", NoLocal: true, QoS: 1, Earlier: Earlier{QoS: 1}}}}
	add("session", s, s.Encode, func(b []byte) (any, error) { return DecodeSession(b) })
	c := &Cursor{Session: id(7), Writer: id(9), Position: Position{90, -1}, Missed: 3, Deliveries: []Delivery{
		{Sequence: 95, PacketID: 65535, QoS: 2, Progress: Released}, {Topic: "retained/topic", PacketID: 1, QoS: 1, Subscription: 268435455},
		{Sequence: 96, PacketID: 2, QoS: 2, Share: "g/retained/+"}, {Sequence: 97, QoS: 1, Progress: Done}},
		Waiting: []Waiting{{"retained/#", "retained/topic", 1 << 40}}}
	add("cursor", c, c.Encode, func(b []byte) (any, error) { return DecodeCursor(b) })
	q := &Received{Session: id(7), Writer: id(9), PacketIDs: []uint16{1, 256, 65535}}
	add("qos2", q, q.Encode, func(b []byte) (any, error) { return DecodeReceived(b) })
	r := &Route{Incarnation: life1("uns-0", 8), Filter: "$share/g/x", QoS: 1, Members: []string{"a", ""}}
	add("route", r, r.Encode, func(b []byte) (any, error) { return DecodeRoute(b) })
	f := Floor{Format: 3, Touched: life1("uns-9", 9)}
	add("floor", f, func(Format) []byte { return f.Encode() }, func(b []byte) (any, error) { return DecodeFloor(b) })
}

func TestRecordsAreReadBackAsWritten(t *testing.T) {
	for _, r := range records {
		got, err := r.decode(r.encode(Newest))
		if err != nil || !reflect.DeepEqual(got, r.record) {
			t.Errorf("%s: wrote %+v, read %+v, %v", r.name, r.record, got, err)
		}
	}
}

func TestDamagedRecordsAreRefused(t *testing.T) {
	for _, r := range records {
		whole := r.encode(Newest)
		for n := range whole {
			if _, err := r.decode(whole[:n]); !errors.Is(err, ErrRecord) {
				t.Errorf("%s cut to %d of %d bytes: %v", r.name, n, len(whole), err)
			}
		}
		if _, err := r.decode(append(bytes.Clone(whole), 0)); !errors.Is(err, ErrRecord) {
			t.Errorf("%s with a byte after its end: %v", r.name, err)
		}
	}
}

func TestARecordOfALaterFormatIsRefusedAndSaysSo(t *testing.T) {
	for _, r := range records {
		later := bytes.Clone(r.encode(Newest))
		later[0] = byte(Newest) + 1
		_, err := r.decode(later)
		if !errors.Is(err, ErrRecord) || !bytes.Contains([]byte(err.Error()), []byte("this release reads 1 to 1")) {
			t.Errorf("%s of a later format: %v", r.name, err)
		}
	}
}

// B14: writing what the members allow but the floor does not leaves a release that
// is rolled back with records it cannot read.
func TestTheWrittenFormatIsNeverAboveTheFloor(t *testing.T) {
	for floor := Format(0); floor < 5; floor++ {
		if w := floor.writes(); w > max(floor, Oldest) || w < Oldest || w > Newest {
			t.Errorf("at floor %d format %d is written", floor, w)
		}
		for _, r := range records {
			if got := Format(r.encode(floor)[0]); got > max(floor, Oldest) {
				t.Errorf("%s at floor %d is written in format %d", r.name, floor, got)
			}
		}
	}
}

func TestAConnectionEndsOnce(t *testing.T) {
	first := time.Unix(100, 5)
	o := Owner{Connection: id(1)}.End(Lost, first)
	if again := o.End(EndedGone, first.Add(time.Hour)); !reflect.DeepEqual(again, o) || o.Ending != Lost || o.Ended != first.UnixNano() {
		t.Errorf("ended as %+v, then as %+v", o, again)
	}
}

// A claim that came to nothing leaves those before it to the next: one of each incarnation,
// its latest.
func TestAClaimHasEveryoneBeforeItLetGo(t *testing.T) {
	a, b, c := Claim{id(1), life1("a", 1)}, Claim{id(2), life1("b", 2)}, Claim{id(3), life1("c", 3)}
	earlier := Claim{id(4), b.Incarnation}
	o := Owner{Connection: b.Connection, Incarnation: b.Incarnation, Before: []Claim{a, earlier, c}}
	if got, want := o.Unsettled(), []Claim{b, a, c}; !reflect.DeepEqual(got, want) {
		t.Errorf("over a claim that is held: %v, want %v", got, want)
	}
	o = o.End(Lost, time.Unix(1, 0))
	if got, want := o.Unsettled(), []Claim{a, earlier, c}; !reflect.DeepEqual(got, want) {
		t.Errorf("over a claim that came to nothing: %v, want %v", got, want)
	}
}

func TestARetriedWillIsTheSameRowAndMessage(t *testing.T) {
	a, b := &Will{Connection: id(1)}, &Will{Connection: id(1), By: life1("x", 2), Timestamp: 5}
	c := &Will{Connection: id(2)}
	if a.RowID() != b.RowID() || a.MessageID() != b.MessageID() {
		t.Error("another sender of the same will makes another row or message")
	}
	if a.RowID() == c.RowID() || a.MessageID() == c.MessageID() {
		t.Error("wills of two connections make the same row or message")
	}
}

// FuzzRecords: no input makes a decoder fail otherwise than by ErrRecord, and what
// is accepted is written back to the same meaning.
func FuzzRecords(f *testing.F) {
	for i, r := range records {
		f.Add(byte(i), r.encode(Newest))
	}
	f.Fuzz(func(t *testing.T, kind byte, b []byte) {
		r := records[int(kind)%len(records)]
		got, err := r.decode(b)
		if err != nil {
			if !errors.Is(err, ErrRecord) {
				t.Fatalf("%s: %v", r.name, err)
			}
			return
		}
		var again []byte
		switch v := got.(type) {
		case Floor:
			again = v.Encode()
		case interface{ Encode(Format) []byte }:
			again = v.Encode(Newest)
		}
		back, err := r.decode(again)
		if err != nil || !reflect.DeepEqual(got, back) {
			t.Fatalf("%s: read %+v, written and read again %+v, %v", r.name, got, back, err)
		}
	})
}
