package jetstream

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"maestrohub.io/uns/broker/state"
)

func TestABatchOfSeveralMessagesHasConsecutiveSequences(t *testing.T) {
	records := make([][]byte, state.MaxAppend)
	for i := range records {
		records[i] = fmt.Append(nil, i)
	}
	var entries []state.Entry
	for part, at := 0, 0; at < len(records); part++ {
		end := min(at+100+part, len(records))
		m := message{sequence: uint64(42 + part), time: time.Unix(1, 0), data: appendFrame(nil, part, at, records[at:end])}
		var err error
		if entries, err = decodeFrame(entries, m); err != nil {
			t.Fatal(err)
		}
		at = end
	}
	for i, e := range entries {
		if e.Sequence != firstSequence(42)+uint64(i) || !bytes.Equal(e.Data, records[i]) || messageOf(e.Sequence) != 42 {
			t.Fatalf("entry %d is %d %q of message %d, want %d %q of message 42", i, e.Sequence, e.Data, messageOf(e.Sequence), firstSequence(42)+uint64(i), records[i])
		}
	}
	if len(entries) != len(records) {
		t.Fatalf("%d entries of %d records", len(entries), len(records))
	}
}

func FuzzFrame(f *testing.F) {
	f.Add(uint64(1), appendFrame(nil, 0, 0, [][]byte{[]byte("a"), {}, []byte("bc")}))
	f.Add(uint64(9), appendFrame(nil, 3, 500, make([][]byte, 400)))
	f.Add(uint64(1), []byte{1, 0, 0, 255, 255, 3, 1})
	f.Add(uint64(1), []byte{2, 0, 0, 1, 0})
	f.Fuzz(func(t *testing.T, sequence uint64, data []byte) {
		sequence = sequence%(1<<50) + 1
		entries, err := decodeFrame(nil, message{sequence: sequence, data: data})
		if err != nil {
			if len(entries) != 0 {
				t.Fatalf("%d entries beside the error %v", len(entries), err)
			}
			return
		}
		if len(entries) > state.MaxAppend {
			t.Fatalf("%d entries", len(entries))
		}
		for i, e := range entries {
			if e.Sequence != entries[0].Sequence+uint64(i) || messageOf(e.Sequence) > sequence {
				t.Fatalf("entry %d of message %d has sequence %d", i, sequence, e.Sequence)
			}
		}
	})
}
