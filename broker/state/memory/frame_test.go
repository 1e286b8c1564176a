package memory

import (
	"reflect"
	"testing"
)

func TestRecordsComeBackFromAFrame(t *testing.T) {
	want := []located{
		{"mqtt-retained", &record{key: "a/b", value: []byte("x"), revision: 7, time: 1_790_000_000_000_000_000}},
		{"api-clients", &record{key: "c", value: []byte{}, revision: 1 << 60, time: -1}},
		{"api-clients", &record{key: "d", revision: 8, deleted: true}},
	}
	frame := appendFrame([]byte("before"), 99, 12, len(want), func(yield func(string, *record)) {
		for _, l := range want {
			yield(l.bucket, l.record)
		}
	})[len("before"):]
	body, size, err := nextFrame(append(frame, "after"...), 99)
	if err != nil || size != len(frame) {
		t.Fatalf("frame of %d bytes read as %d, error %v", len(frame), size, err)
	}
	if _, _, err := nextFrame(frame, 98); err == nil {
		t.Fatal("a frame of another file's seed was taken")
	}
	number, count, rest, err := frameNumber(body)
	if err != nil || number != 12 || count != 3 {
		t.Fatalf("frame %d of %d records, error %v", number, count, err)
	}
	var got []located
	if err := decodeRecords(rest, count, func(bucket string, r *record) { got = append(got, located{bucket, r}) }); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("decoded %v, want %v", got, want)
	}
	for cut := range frame {
		if _, _, err := nextFrame(frame[:cut], 99); err == nil {
			t.Fatalf("a frame cut to %d bytes was taken", cut)
		}
	}
}

func FuzzFrame(f *testing.F) {
	f.Add(appendFrame(nil, 0, 1, 1, func(yield func(string, *record)) { yield("b", &record{key: "k", value: []byte("v")}) })[frameHeader:])
	f.Add([]byte{frameFormat, 0, 0})
	f.Fuzz(func(t *testing.T, body []byte) {
		number, count, rest, err := frameNumber(body)
		if err != nil {
			return
		}
		var got []located
		if decodeRecords(rest, count, func(bucket string, r *record) { got = append(got, located{bucket, r}) }) != nil {
			return
		}
		again := appendFrame(nil, 0, number, len(got), func(yield func(string, *record)) {
			for _, l := range got {
				yield(l.bucket, l.record)
			}
		})
		n := 0
		_, count, rest, err = frameNumber(again[frameHeader:])
		if err != nil {
			t.Fatal(err)
		}
		err = decodeRecords(rest, count, func(bucket string, r *record) {
			if l := got[n]; bucket != l.bucket || !reflect.DeepEqual(r, l.record) {
				t.Fatalf("record %d decodes as %+v, again as %+v", n, l.record, r)
			}
			n++
		})
		if err != nil || n != len(got) {
			t.Fatalf("%d of %d records decode again, error %v", n, len(got), err)
		}
	})
}
