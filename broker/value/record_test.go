package value

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

func full() *Value {
	payload := []byte(`{"value": 21.5, "quality": "good"}`)
	return &Value{
		Workspace: "acme", Name: "mHv1.0/acme/line/1/temp", Topic: "line/1/temp",
		Publisher: "press-7", ClientID: "press-7-a",
		Timestamp: 1_790_000_000_123_456_789, Timed: true, Received: 1_790_000_000_200_000_000,
		Quality: Good, Kind: JSON, Payload: payload, Body: payload[10:14],
		Properties: Properties{PayloadFormat: 1, HasPayloadFormat: true, ContentType: "application/json", HasContentType: true,
			ResponseTopic: "mHv1.0/acme/reply", CorrelationData: []byte{0, 1, 2},
			User: []UserProperty{{"a", "1"}, {"a", "2"}, {"", ""}}},
		QoS: 2, Retain: true, Expires: 1_790_000_060_000_000_000, Position: 77,
		Shares: []Share{{Key: "g/mHv1.0/acme/#", Session: "worker-1"}}, Redirected: true,
	}
}

func TestRecordKeepsEveryField(t *testing.T) {
	cases := map[string]*Value{
		"every field": full(),
		"no property": {Workspace: "w", Name: "mHv1.0/w/t", Topic: "t", RowID: 9, Payload: []byte("1"), Body: nil},
		"opaque, empty correlation data": {Workspace: "w", Name: "mHv1.0/w/t", Topic: "t", Kind: Opaque,
			Properties: Properties{CorrelationData: []byte{}, HasPayloadFormat: true, HasContentType: true}},
	}
	for name, want := range cases {
		t.Run(name, func(t *testing.T) {
			if want.Body == nil {
				want.Body = want.Payload
			}
			got, err := DecodeRecord(want.AppendRecord(nil))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Body, want.Body) || !bytes.Equal(got.Payload, want.Payload) {
				t.Fatalf("payload %q body %q, want %q and %q", got.Payload, got.Body, want.Payload, want.Body)
			}
			got.Payload, got.Body = want.Payload, want.Body
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("decoded %+v, want %+v", got, want)
			}
		})
	}
}

func TestEveryFieldIsInTheRecord(t *testing.T) {
	// A field added to Value and forgotten in the record would be lost on every
	// path but the local one: full() must set each, so that the test above sees it.
	v := reflect.ValueOf(*full())
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if v.Field(i).IsZero() && name != "RowID" && name != "Kind" {
			t.Errorf("full() leaves %s at its zero value", name)
		}
	}
}

func TestDamagedRecordsAreRefused(t *testing.T) {
	record := full().AppendRecord(nil)
	for n := range record {
		if _, err := DecodeRecord(record[:n]); !errors.Is(err, ErrRecord) {
			t.Fatalf("record cut to %d of %d bytes: error %v, want ErrRecord", n, len(record), err)
		}
	}
	if _, err := DecodeRecord(append(record, 0)); !errors.Is(err, ErrRecord) {
		t.Fatalf("record with a byte too many: error %v, want ErrRecord", err)
	}
	record[0] = Format + 1
	before := NewerMet()
	if _, err := DecodeRecord(record); !errors.Is(err, ErrRecord) {
		t.Fatalf("record of another format: error %v, want ErrRecord", err)
	}
	if got := NewerMet() - before; got != 1 {
		t.Fatalf("counted %d records of a newer format, want 1", got)
	}
}

func FuzzDecodeRecord(f *testing.F) {
	f.Add(full().AppendRecord(nil))
	f.Add([]byte{Format})
	f.Fuzz(func(t *testing.T, record []byte) {
		v, err := DecodeRecord(record)
		if err != nil {
			return
		}
		again, err := DecodeRecord(v.AppendRecord(nil))
		if err != nil {
			t.Fatalf("a decoded record does not decode again: %v", err)
		}
		if !reflect.DeepEqual(again, v) {
			t.Fatalf("decoded %+v, again %+v", v, again)
		}
	})
}
