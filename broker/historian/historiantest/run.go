package historiantest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/value"
)

// Open opens the store of that name, a word of letters, digits and dashes: empty
// the first time, with what it held when it is opened again after a Close. It ends
// the test on an error.
type Open func(t *testing.T, store string) historian.Historian

// Run runs the suite.
func Run(t *testing.T, open Open) {
	for _, c := range []struct {
		name string
		test func(*testing.T, *suite)
	}{
		{"AppendedValuesAreReadAsTheyWere", appendedValuesAreReadAsTheyWere},
		{"EmptyBatchIsStored", emptyBatchIsStored},
		{"PositionsIncreaseAndSurviveARestart", positionsIncrease},
		{"TimedValueSentTwiceIsStoredOnce", timedValueTwice},
		{"TimedValueTwiceInOneBatchIsStoredOnce", timedValueTwiceInOneBatch},
		{"TimedValuesSentByManyAtOnceAreStoredOnce", timedValuesAtOnce},
		{"ValuesThatDifferInOneFieldAreStoredEach", differingValues},
		{"RetriedUntimedBatchStoresNothingTwice", retriedUntimedBatch},
		{"LateValuesAreFoundInTheirPlace", lateValues},
		{"OneBadValueIsNamedAndNothingStored", oneBadValue},
		{"EndedContextIsReported", endedContext},
		{"AppendsAtOnceAreAllStored", appendsAtOnce},
		{"ClosedHistorianIsUnavailable", closedHistorian},
		{"RangeIncludesFromAndExcludesTo", timeRange},
		{"FiltersSelectTopics", filters},
		{"WorkspacesAreWalled", workspaces},
		{"InvisibleTopicsAreLeftOut", invisibleTopics},
		{"PagesAreWholeInBothDirections", pages},
		{"CursorStaysRightWhileValuesArrive", cursorWhileArriving},
		{"WrongQueriesAreRefused", wrongQueries},
		{"PageIsBoundedInBytes", pageBytes},
		{"RandomHistoryReadsLikeItsModel", randomHistory},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, &suite{t: t, open: open}) })
	}
}

// suite is one test's store.
type suite struct {
	t    *testing.T
	open Open
	h    historian.Historian
}

// start opens the test's store, again if it was open.
func (s *suite) start() historian.Historian {
	s.t.Helper()
	if s.h != nil {
		if err := s.h.Close(); err != nil {
			s.t.Fatalf("close: %v", err)
		}
	} else {
		s.t.Cleanup(func() { _ = s.h.Close() })
	}
	name := s.t.Name()
	s.h = s.open(s.t, strings.ToLower(name[strings.LastIndexByte(name, '/')+1:]))
	return s.h
}

// base is a moment well within what any historian takes.
var base = time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC).UnixNano()

const second = int64(time.Second)

// timed returns a value with a device's timestamp, offset seconds after base.
func timed(topic string, offset int64, body string) *value.Value {
	v := &value.Value{
		Workspace: "acme", Topic: topic, Name: "mHv1.0/acme/" + topic, Publisher: "press-7", ClientID: "press-7-a",
		Timestamp: base + offset*second, Timed: true, Received: base + offset*second + 7,
		Quality: value.Good, Payload: []byte(body), QoS: 1,
	}
	v.Body = v.Payload
	return v
}

// untimed returns the same with a RowID instead of a device's timestamp.
func untimed(topic string, offset int64, rowID uint64, body string) *value.Value {
	v := timed(topic, offset, body)
	v.Timed, v.RowID = false, rowID
	return v
}

// mustAppend appends and returns the Positions.
func (s *suite) mustAppend(values ...*value.Value) []uint64 {
	s.t.Helper()
	if err := s.h.Append(s.t.Context(), values); err != nil {
		s.t.Fatalf("append %d values: %v", len(values), err)
	}
	positions := make([]uint64, len(values))
	for i, v := range values {
		if positions[i] = v.Position; v.Position == 0 {
			s.t.Fatalf("value %d of %d has no Position after Append", i, len(values))
		}
	}
	return positions
}

// everything is a query for all of the workspace acme.
func everything() historian.Query {
	return historian.Query{Workspace: "acme", Topic: "#", From: 0, To: 1<<63 - 1}
}

// read reads all pages of a query.
func (s *suite) read(q historian.Query) []historian.Row {
	s.t.Helper()
	var rows []historian.Row
	for page := 0; ; page++ {
		if page > 10_000 {
			s.t.Fatal("a query has more than 10,000 pages: cursors do not move on")
		}
		p, err := s.h.Read(s.t.Context(), q)
		if err != nil {
			s.t.Fatalf("read page %d of %+v: %v", page, q, err)
		}
		if q.Limit > 0 && len(p.Rows) > q.Limit {
			s.t.Fatalf("page %d has %d rows, the limit is %d", page, len(p.Rows), q.Limit)
		}
		rows = append(rows, p.Rows...)
		if p.Next == "" {
			return rows
		}
		q.After = p.Next
	}
}

// describe says rows in one line each, for comparing and for failures.
func describe(rows []historian.Row) string {
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "%s @%d %s\n", r.Topic, (r.Timestamp-base)/second, r.Body)
	}
	return b.String()
}

// expect compares rows with lines of describe.
func (s *suite) expect(what string, rows []historian.Row, want ...string) {
	s.t.Helper()
	got := strings.TrimSuffix(describe(rows), "\n")
	if wanted := strings.Join(want, "\n"); got != wanted {
		s.t.Fatalf("%s: rows\n%s\nwant\n%s", what, got, wanted)
	}
}

// within bounds a test's wait.
func (s *suite) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(s.t.Context(), d)
	s.t.Cleanup(cancel)
	return ctx
}
