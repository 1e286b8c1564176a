package timescale

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/topic"
	"maestrohub.io/uns/broker/value"
)

// However the rows of a filter are looked for, they are the same.
func TestEveryWayOfReadingGivesTheSamePages(t *testing.T) {
	t.Parallel()
	h := open(t, database(t, shared), Options{})
	now := time.Now()
	var all []*value.Value
	for i := range 900 {
		name := fmt.Sprintf("many/%d/x", i)
		switch {
		case i%3 == 0:
			name = fmt.Sprintf("few/%d", i%9)
		case i%3 == 1:
			name = fmt.Sprintf("some/%d/x", i%66)
		}
		all = append(all, at(name, now.Add(-time.Duration(i/4)*time.Hour), fmt.Sprint(i)))
	}
	mustAppend(t, h, all...)
	odd := func(name string) bool { return strings.Contains(name, "1") }
	ways := map[bool]int{}
	for _, filter := range []string{"#", "few/#", "few/3", "some/+/x", "many/#", "+/+/x", "+/3"} {
		for _, visible := range []func(string) bool{nil, odd} {
			for _, newest := range []bool{false, true} {
				var want []string
				for _, v := range all {
					if topic.MatchBelow(filter, v.Topic) && (visible == nil || visible(v.Topic)) {
						want = append(want, fmt.Sprintf("%d %d", v.Timestamp, v.Position))
					}
				}
				slices.Sort(want)
				if newest {
					slices.Reverse(want)
				}
				var got []string
				q := historian.Query{Workspace: "acme", Topic: filter, To: 1<<63 - 1, Newest: newest, Limit: 37, Visible: visible}
				for {
					page, err := h.Read(t.Context(), q)
					if err != nil {
						t.Fatal(err)
					}
					for _, r := range page.Rows {
						got = append(got, fmt.Sprintf("%d %d", r.Timestamp, r.Position))
					}
					if q.After = page.Next; q.After == "" {
						break
					}
				}
				if !slices.Equal(got, want) {
					t.Errorf("filter %s, newest first %v, restricted %v: %d rows, want %d", filter, newest, visible != nil, len(got), len(want))
				}
				s, err := h.session(t.Context(), h.reads)
				if err != nil {
					t.Fatal(err)
				}
				c, err := h.choose(t.Context(), s, "acme", filter, visible)
				s.release()
				if err != nil {
					t.Fatal(err)
				}
				if !c.all {
					ways[(&reading{chosen: c, limit: 37}).byTopic()]++
				}
			}
		}
	}
	if ways[true] == 0 || ways[false] == 0 {
		t.Errorf("read topic by topic %d times, through the workspace %d times: the test wants both", ways[true], ways[false])
	}
}

// BenchmarkReadNewest reads the newest 100 values out of 90 days with a partition
// each, 500 topics that have 4 values a day and one that had its last 80 days ago.
func BenchmarkReadNewest(b *testing.B) {
	url := database(b, shared)
	h := open(b, url, Options{})
	now := time.Now()
	var first []*value.Value
	for day := range 90 {
		first = append(first, at("quiet", now.AddDate(0, 0, -day), "1"))
	}
	for topic := range 500 {
		first = append(first, at(fmt.Sprintf("line/%d/machine/%d", topic%10, topic), now, "1"))
	}
	mustAppend(b, h, first...)
	exec(b, url, "DELETE FROM maestrohub.value WHERE time > now() - interval '80 days'")
	exec(b, url, `INSERT INTO maestrohub.value SELECT now() - day * interval '1 day' - n * interval '1 minute', nextval('maestrohub.position_block'), 0,
		gen_random_uuid(), t.id, t.workspace_id, 0, 192, 0, true, 'press-7', repeat('x', 200)::bytea
		FROM generate_series(0, 88) day, generate_series(1, 4) n, maestrohub.topic t WHERE t.name <> 'quiet'`)
	exec(b, url, "ANALYZE")
	for name, q := range map[string]historian.Query{
		"busy topic":            {Topic: "line/3/machine/3"},
		"quiet topic":           {Topic: "quiet"},
		"50 of 500 topics":      {Topic: "line/3/#"},
		"all":                   {Topic: "#"},
		"busy topic, an hour":   {Topic: "line/3/machine/3", From: now.AddDate(0, 0, -30).UnixNano(), To: now.AddDate(0, 0, -30).Add(time.Hour).UnixNano()},
		"all, restricted to 50": {Topic: "#", Visible: func(name string) bool { return strings.HasPrefix(name, "line/4/") }},
	} {
		b.Run(name, func(b *testing.B) {
			q.Workspace, q.Newest, q.Limit = "acme", true, 100
			if q.To == 0 {
				q.To = 1<<63 - 1
			}
			for b.Loop() {
				if _, err := h.Read(b.Context(), q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
