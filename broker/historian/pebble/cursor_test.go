package pebble

import (
	"errors"
	"testing"

	"maestrohub.io/uns/broker/historian"
)

func FuzzCursor(f *testing.F) {
	p := place{timestamp: 1_790_000_000_000_000_000, topic: 7, identity: [identitySize]byte{identityTimed, 1, 2}}
	f.Add(p.cursor(false), false)
	f.Add(p.cursor(true), true)
	f.Add("", false)
	f.Add("AQA", true)
	f.Fuzz(func(t *testing.T, s string, newest bool) {
		p, err := parseCursor(s, newest)
		if err != nil {
			if !errors.Is(err, historian.ErrQuery) {
				t.Fatalf("cursor %q: error %v, want ErrQuery", s, err)
			}
			return
		}
		if again := p.cursor(newest); again != s {
			t.Fatalf("cursor %q reads as %+v, whose cursor is %q", s, p, again)
		}
	})
}

func FuzzDecodeRow(f *testing.F) {
	v := crashBatch(0, 1)[0]
	var key rowKey
	appendRowPrefix(key[:0], 1, 2)
	id, _ := identity(v, nil)
	copy(key[keyIdentity:], id[:])
	f.Add(key[:], appendRow(nil, v))
	f.Add([]byte("r"), []byte{})
	f.Fuzz(func(t *testing.T, key, data []byte) {
		row, err := decodeRow(key, data)
		if err != nil {
			if !errors.Is(err, errDamagedRow) {
				t.Fatalf("error %v, want errDamagedRow", err)
			}
			return
		}
		if len(row.Publisher)+len(row.Body) > len(data) {
			t.Fatalf("a row of %d bytes decodes to %d", len(data), len(row.Publisher)+len(row.Body))
		}
	})
}
