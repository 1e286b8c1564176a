package pebble

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/value"
)

func sensorValue(topic string, at time.Time, body []byte) *value.Value {
	return &value.Value{
		Workspace: "acme", Topic: topic, Publisher: "p", Timestamp: at.UnixNano(), Timed: true,
		Received: at.UnixNano(), Quality: value.Good, Body: body,
	}
}

// inspect reads a number out of the running store.
func inspect(t *testing.T, h *Historian, get func(g *generation) int) int {
	t.Helper()
	h.mu.Lock()
	g := h.current
	h.mu.Unlock()
	if g == nil || !g.acquire() {
		t.Fatal("the store is not open")
	}
	defer g.release()
	return get(g)
}

func segmentsKept(g *generation) int {
	g.retention.mu.Lock()
	defer g.retention.mu.Unlock()
	return len(g.retention.segments)
}

// entries counts the keys of a space.
func entries(t *testing.T, space byte) func(g *generation) int {
	return func(g *generation) (n int) {
		iter, err := g.db.NewIter(nil)
		if err != nil {
			t.Fatal(err)
		}
		for ok := iter.SeekGE([]byte{space}); ok && iter.Key()[0] == space; ok = iter.Next() {
			n++
		}
		if err := iter.Close(); err != nil {
			t.Fatal(err)
		}
		return n
	}
}

// tableBytes returns what the table files of a store take.
func tableBytes(t *testing.T, dir string) (total int64) {
	names, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if info, err := os.Stat(name); err == nil { // else removed just now
			total += info.Size()
		}
	}
	return total
}

func TestRowsAreGoneAtTheirAge(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "history")
	now := time.Now()
	ages := []time.Duration{-time.Hour, 0, 30 * time.Minute, 59 * time.Minute, 61 * time.Minute, 5 * time.Hour, 90 * 24 * time.Hour}
	h := open(t, dir, Options{MaxAge: time.Hour, Logger: quiet()})
	for i, age := range ages {
		mustAppend(t, h, sensorValue(fmt.Sprintf("t/%d", i), now.Add(-age), []byte("1")))
	}
	for _, filter := range []string{"#", "t/4"} {
		for _, r := range readAll(t, h, filter) {
			if r.Timestamp < now.Add(-time.Hour).UnixNano() {
				t.Fatalf("filter %s gives a row %s old, MaxAge is 1 h", filter, now.Sub(time.Unix(0, r.Timestamp)))
			}
		}
	}
	if rows := readAll(t, h, "#"); len(rows) != 4 {
		t.Fatalf("%d rows are at most 1 h old, want 4", len(rows))
	}
	waitFor(t, "the segments of the oldest rows are removed", func() bool { return inspect(t, h, entries(t, spaceRow)) <= 5 })
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	// With a longer age the removed rows do not come back, the others are there.
	h = open(t, dir, Options{MaxAge: 1000 * 24 * time.Hour})
	defer func() { _ = h.Close() }()
	if rows := readAll(t, h, "#"); len(rows) < 4 || len(rows) > 5 {
		t.Fatalf("%d rows after reopening, want 4 or 5", len(rows))
	}
}

func TestOldestRowsGoFirstWhenTheStoreIsTooLarge(t *testing.T) {
	const maxBytes = 24 << 20
	dir := filepath.Join(t.TempDir(), "history")
	h := open(t, dir, Options{MaxBytes: maxBytes, Logger: quiet()})
	defer func() { _ = h.Close() }()
	start := time.Now().Add(-100 * time.Hour)
	// A clock that is years ahead does not push everyone else's values out.
	mustAppend(t, h, sensorValue("ahead", start.AddDate(20, 0, 0), incompressible(-1, 1<<20)))
	const written = 96
	for i := range written { // 1 MiB an hour and a topic of its own every 8 hours
		mustAppend(t, h, sensorValue(fmt.Sprintf("topic/%d", i/8), start.Add(time.Duration(i)*time.Hour), incompressible(i, 1<<20)))
	}
	if err := h.flushForTest(); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, h, sensorValue("last", start.Add((written+1)*time.Hour), []byte("1"))) // a segment: a sweep
	kept := func() []historian.Row { return readAll(t, h, "topic/#") }
	waitFor(t, "the oldest rows are removed", func() bool { return len(kept()) <= maxBytes>>20 })
	rows := kept()
	if len(rows) < maxBytes>>21 {
		t.Fatalf("%d MiB are kept, the limit is %d MiB", len(rows), maxBytes>>20)
	}
	for i, r := range rows {
		if want := start.Add(time.Duration(written-len(rows)+i) * time.Hour).UnixNano(); r.Timestamp != want {
			t.Fatalf("row %d of %d is of %s, want the newest %d", i, len(rows), time.Unix(0, r.Timestamp), len(rows))
		}
	}
	if rows := readAll(t, h, "ahead"); len(rows) != 0 {
		t.Fatal("the value stamped years ahead is kept while older ones are removed")
	}
	// What is left of the removed: nothing on the disk, in the index or of their topics.
	if err := h.flushForTest(); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, h, sensorValue("last", start.Add((written+3)*time.Hour), []byte("1"))) // the sweep after
	waitFor(t, "the files of removed segments are gone", func() bool { return tableBytes(t, dir) <= maxBytes+4<<20 })
	waitFor(t, "topics without rows are forgotten", func() bool {
		return inspect(t, h, entries(t, spaceName)) <= len(rows)/8+4
	})
	if n, segments := inspect(t, h, entries(t, spacePresence)), inspect(t, h, segmentsKept); n > segments+garbageSegments {
		t.Fatalf("%d presence entries for %d segments", n, segments)
	}
}

func TestAppendsGoOnWhileRetentionRemoves(t *testing.T) {
	h := open(t, filepath.Join(t.TempDir(), "history"), Options{MaxBytes: 16 << 20, Logger: quiet()})
	defer func() { _ = h.Close() }()
	var longest atomic.Int64
	start := time.Now().Add(-1000 * time.Hour)
	var last uint64
	for i := range 200 {
		began := time.Now()
		v := sensorValue("t", start.Add(time.Duration(i)*time.Hour), incompressible(i, 256<<10))
		mustAppend(t, h, v)
		if v.Position <= last {
			t.Fatalf("Position %d after %d", v.Position, last)
		}
		last = v.Position
		longest.Store(max(longest.Load(), int64(time.Since(began))))
	}
	t.Logf("longest append %s", time.Duration(longest.Load()))
	rows := readAll(t, h, "t")
	if len(rows) == 0 || rows[len(rows)-1].Position != last {
		t.Fatalf("the value appended last is not the newest of %d rows", len(rows))
	}
	for i := 1; i < len(rows); i++ {
		if rows[i].Timestamp-rows[i-1].Timestamp != int64(time.Hour) {
			t.Fatalf("a gap after row %d: retention took from the middle", i-1)
		}
	}
}

func TestSegmentIsCutOffWhenItIsFull(t *testing.T) {
	h := open(t, filepath.Join(t.TempDir(), "history"), Options{MaxBytes: 32 << 20, Logger: quiet()}) // segments of 2 MiB
	defer func() { _ = h.Close() }()
	now := time.Now().Truncate(time.Hour)
	for i := range 60 {
		mustAppend(t, h, sensorValue("t", now.Add(time.Duration(i)*10*time.Second), incompressible(i, 256<<10)))
	}
	if n := inspect(t, h, segmentsKept); n < 4 {
		t.Fatalf("15 MiB within 10 minutes are in %d segments, want at least 4", n)
	}
	for i := range 60 { // all are found where they are
		mustAppend(t, h, sensorValue("t", now.Add(time.Duration(i)*10*time.Second), incompressible(i, 256<<10)))
	}
	if rows := readAll(t, h, "t"); len(rows) != 60 {
		t.Fatalf("%d rows after each value was sent twice, want 60", len(rows))
	}
}
