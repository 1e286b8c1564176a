package historiantest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/topic"
	"maestrohub.io/uns/broker/value"
)

func timeRange(t *testing.T, s *suite) {
	s.start()
	for i := range int64(6) {
		s.mustAppend(timed("a", i, "x"))
	}
	q := everything()
	q.Topic, q.From, q.To = "a", base+2*second, base+4*second
	s.expect("oldest first", s.read(q), "a @2 x", "a @3 x")
	q.Newest = true
	s.expect("newest first", s.read(q), "a @3 x", "a @2 x")
	q.From, q.To = base+2*second, base+2*second+1
	s.expect("one moment", s.read(q), "a @2 x")
	q.From, q.To = base+2*second+1, base+3*second
	s.expect("between values", s.read(q))
	q.From, q.To = base-9*second, base
	s.expect("before all", s.read(q))
	q.From, q.To = base+6*second, base+60*second
	s.expect("after all", s.read(q))
}

// names are topics chosen for what sorts next to a separator.
var names = []string{
	"a", "a/b", "a/b/c", "a/b/c/d", "a/c", "a-b", "a!b/c", "a0/b", "a//b", "/a", "/", "a/", "b/b", "b/c/b", "b",
	"$SYS/b", "$SYS", "ab/c", "a/b c/d", "ä/b", "a/$b",
}

func filters(t *testing.T, s *suite) {
	s.start()
	for i, name := range names {
		s.mustAppend(timed(name, int64(i), "x"))
	}
	s.mustAppend(func() *value.Value { v := timed("a/b", 0, "x"); v.Workspace = "acme-2"; return v }())
	for _, filter := range []string{
		"#", "a/#", "a/b/#", "+", "+/b", "+/+", "+/b/#", "a/+", "a/+/c", "a/+/#", "+/+/b", "a/b", "a/b/c/d", "no/such", "+/c/+",
		"/+", "/#", "$SYS/#", "$SYS/+", "+/b/+/d", "a//#", "a/+/+/d", "b/+/b", "+//b",
	} {
		var want []string
		for i, name := range names {
			if topic.MatchBelow(filter, name) {
				want = append(want, fmt.Sprintf("%s @%d x", name, i))
			}
		}
		q := everything()
		q.Topic = filter
		s.expect("filter "+filter, s.read(q), want...)
	}
}

func workspaces(t *testing.T, s *suite) {
	s.start()
	for _, w := range []string{"acme", "acme2", "acm", "b"} {
		v := timed("a", 1, `"`+w+`"`)
		v.Workspace = w
		s.mustAppend(v)
	}
	for _, w := range []string{"acme", "acme2", "acm", "b", "none"} {
		for _, filter := range []string{"#", "a"} {
			q := everything()
			q.Workspace, q.Topic = w, filter
			if w == "none" {
				s.expect(w, s.read(q))
			} else {
				s.expect(w, s.read(q), `a @1 "`+w+`"`)
			}
		}
	}
}

func invisibleTopics(t *testing.T, s *suite) {
	s.start()
	for i := range int64(40) {
		s.mustAppend(timed(fmt.Sprintf("t/%d", i%4), i, "x"))
	}
	q := everything()
	q.Limit = 3
	q.Visible = func(topic string) bool { return topic == "t/1" || topic == "t/3" }
	rows := s.read(q)
	if len(rows) != 20 {
		t.Fatalf("%d rows, want 20:\n%s", len(rows), describe(rows))
	}
	for _, r := range rows {
		if !q.Visible(r.Topic) {
			t.Fatalf("a row of %s, which the reader may not see", r.Topic)
		}
	}
	q.Topic = "t/0"
	s.expect("an invisible topic by name", s.read(q))
}

func pages(t *testing.T, s *suite) {
	s.start()
	var values []*value.Value
	for i := range int64(60) {
		// Several topics share each moment, and one topic has several values of it.
		values = append(values, timed(fmt.Sprintf("t/%d", i%3), i/6, fmt.Sprint(i)))
	}
	s.mustAppend(values...)
	for _, newest := range []bool{false, true} {
		q := everything()
		q.Newest = newest
		all := s.read(q)
		if len(all) != len(values) {
			t.Fatalf("%d rows, want %d", len(all), len(values))
		}
		if !slices.IsSortedFunc(all, func(a, b historian.Row) int {
			if newest {
				a, b = b, a
			}
			return int((a.Timestamp - b.Timestamp) / second)
		}) {
			t.Fatalf("newest first %v, not in the order of time:\n%s", newest, describe(all))
		}
		for _, limit := range []int{1, 2, 5, 7, 59, 60, 61} {
			q.Limit = limit
			if got := s.read(q); describe(got) != describe(all) {
				t.Fatalf("newest first %v, pages of %d give\n%swant\n%s", newest, limit, describe(got), describe(all))
			}
		}
		q.Limit = len(values)
		if p, err := s.h.Read(t.Context(), q); err != nil || p.Next != "" {
			t.Fatalf("a page that holds all has cursor %q, error %v", p.Next, err)
		}
	}
}

func cursorWhileArriving(t *testing.T, s *suite) {
	for _, newest := range []bool{false, true} {
		s.start()
		topic := fmt.Sprintf("newest-%v", newest)
		for i := range int64(20) {
			s.mustAppend(timed(topic, 2*i, "old"))
		}
		q := everything()
		q.Topic, q.Limit, q.Newest = topic, 4, newest
		seen := map[int64]int{}
		for page := int64(0); ; page++ {
			p, err := s.h.Read(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range p.Rows {
				seen[(r.Timestamp-base)/second]++
			}
			if p.Next == "" {
				break
			}
			q.After = p.Next
			// One value where the reader has been, one where it will be.
			s.mustAppend(timed(topic, 1+2*page, "new"), timed(topic, 39-2*page, "new"))
			if page == 2 {
				s.start() // a cursor outlives the process
			}
		}
		for i := range int64(20) {
			if seen[2*i] != 1 {
				t.Fatalf("newest first %v: the row at %d, there throughout, was read %d times", newest, 2*i, seen[2*i])
			}
		}
		for at, n := range seen {
			if n > 1 {
				t.Fatalf("newest first %v: the row at %d was read %d times", newest, at, n)
			}
		}
	}
}

func wrongQueries(t *testing.T, s *suite) {
	s.start()
	s.mustAppend(timed("a", 1, "1"), timed("a", 2, "2"))
	first := everything()
	first.Limit = 1
	p, err := s.h.Read(t.Context(), first)
	if err != nil || p.Next == "" {
		t.Fatalf("first page: cursor %q, error %v", p.Next, err)
	}
	for name, spoil := range map[string]func(*historian.Query){
		"no workspace":                    func(q *historian.Query) { q.Workspace = "" },
		"no topic":                        func(q *historian.Query) { q.Topic = "" },
		"a malformed filter":              func(q *historian.Query) { q.Topic = "a/#/b" },
		"an empty range":                  func(q *historian.Query) { q.To = q.From },
		"a negative limit":                func(q *historian.Query) { q.Limit = -1 },
		"a made-up cursor":                func(q *historian.Query) { q.After = "garbage" },
		"half a cursor":                   func(q *historian.Query) { q.After = p.Next[:len(p.Next)/2] },
		"a cursor of the other direction": func(q *historian.Query) { q.After, q.Newest = p.Next, true },
	} {
		q := everything()
		spoil(&q)
		if _, err := s.h.Read(t.Context(), q); !errors.Is(err, historian.ErrQuery) {
			t.Errorf("%s: error %v, want ErrQuery", name, err)
		}
	}
}

func pageBytes(t *testing.T, s *suite) {
	s.start()
	body := strings.Repeat("x", 4<<20)
	for i := range int64(10) {
		s.mustAppend(timed(fmt.Sprintf("t/%d", i%2), i, body))
	}
	q := everything()
	p, err := s.h.Read(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, r := range p.Rows {
		size += len(r.Body)
	}
	if size > historian.PageBytes || p.Next == "" {
		t.Fatalf("a page of %d bytes with cursor %q, at most %d bytes allowed", size, p.Next, historian.PageBytes)
	}
	if rows := s.read(q); len(rows) != 10 {
		t.Fatalf("%d rows over all pages, want 10", len(rows))
	}
}

// randomHistory appends at random and compares reads with a plain list.
func randomHistory(t *testing.T, s *suite) {
	s.start()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	type entry struct {
		topic, body string
		offset      int64
	}
	stored := map[entry]bool{}
	for range 60 {
		if random.IntN(20) == 0 {
			s.start()
		}
		var values []*value.Value
		for range 1 + random.IntN(10) {
			e := entry{names[random.IntN(8)], fmt.Sprint(random.IntN(2)), random.Int64N(40) * 900}
			if random.IntN(10) == 0 {
				e.offset -= random.Int64N(1000) * 86_400 // up to 1,000 days before
			}
			stored[e] = true
			values = append(values, timed(e.topic, e.offset, e.body))
		}
		s.mustAppend(values...)
	}
	for range 100 {
		q := everything()
		q.Topic = []string{"#", "a/#", "+", "a/b", "a/+/#"}[random.IntN(5)]
		q.Newest = random.IntN(2) == 0
		q.Limit = 1 + random.IntN(30)
		if random.IntN(3) > 0 {
			q.From = base + random.Int64N(40)*900*second
			q.To = q.From + 1 + random.Int64N(20)*900*second
		}
		var want []string
		for e := range stored {
			if at := base + e.offset*second; topic.MatchBelow(q.Topic, e.topic) && at >= q.From && at < q.To {
				want = append(want, fmt.Sprintf("%s @%d %s", e.topic, e.offset, e.body))
			}
		}
		rows := s.read(q)
		for i := 1; i < len(rows); i++ {
			if a, b := rows[i-1].Timestamp, rows[i].Timestamp; a != b && (a < b) == q.Newest {
				t.Fatalf("seed %d: row %d out of order in\n%s", seed, i, describe(rows))
			}
		}
		got := strings.Split(strings.TrimSuffix(describe(rows), "\n"), "\n")
		if len(rows) == 0 {
			got = nil
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d, query %+v: rows\n%s\nwant\n%s", seed, q, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}
