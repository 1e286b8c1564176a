package pebble

import (
	"encoding/binary"
	"errors"
	"fmt"

	crdb "github.com/cockroachdb/pebble/v2"
)

// Numbers the store keeps about itself.
const (
	metaFormat    = "format"    // storeFormat
	metaPositions = "positions" // every Position given out is below
	metaTopics    = "topics"    // every topic id given out is below
	metaSegments  = "segments"  // every segment id given out is below
)

// storeFormat is the layout of keys and rows. Formats are append-only.
const storeFormat = 1

func metaKey(name string) []byte { return append([]byte{spaceMeta}, name...) }

func setMeta(w crdb.Writer, name string, number uint64) error {
	return w.Set(metaKey(name), binaryNumber(number), nil)
}

// meta returns a number, 0 if it was never set.
func meta(r crdb.Reader, name string) (uint64, error) {
	data, closer, err := r.Get(metaKey(name))
	if errors.Is(err, crdb.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read %q: %w", name, err)
	}
	defer func() { _ = closer.Close() }()
	if len(data) != 8 {
		return 0, fmt.Errorf("%w: %q of %d bytes, 8 expected", errDamagedStore, name, len(data))
	}
	return binary.BigEndian.Uint64(data), nil
}

func binaryNumber(number uint64) []byte { return binary.BigEndian.AppendUint64(nil, number) }

// positions gives out Positions. The block they come from is reserved in the batch
// that first uses it, so a Position that may have been seen is never given again.
type positions struct {
	next, reserved uint64
}

const positionBlock = 1 << 16

// take returns the next Position.
func (p *positions) take(w crdb.Writer) (uint64, error) {
	if p.next >= p.reserved {
		p.reserved = p.next + positionBlock
		if err := setMeta(w, metaPositions, p.reserved); err != nil {
			return 0, err
		}
	}
	n := p.next
	p.next++
	return n, nil
}
