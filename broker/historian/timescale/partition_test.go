package timescale

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/value"
)

func TestPlannedSpansCoverEveryTimeAndNeverOverlap(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	now := time.Date(2026, 11, 30, 13, 0, 0, 0, time.UTC)
	var all []span
	for round := range 400 {
		var times []int64
		for range 1 + random.IntN(5) {
			switch random.IntN(3) {
			case 0:
				times = append(times, microsOf(now.Add(time.Duration(random.Int64N(int64(80*24*time.Hour)))-40*24*time.Hour)))
			case 1:
				times = append(times, microsOf(time.Unix(random.Int64N(maxTimestamp/int64(time.Second)), 0)))
			case 2:
				times = append(times, microsOf(time.Date(2026, 11, random.IntN(31), 0, 0, 0, 0, time.UTC)))
			}
		}
		all = append(all, planSpans(all, times, now)...)
		slices.SortFunc(all, func(a, b span) int { return int(max(-1, min(1, a.lower-b.lower))) })
		for i, s := range all {
			if s.lower >= s.upper || i > 0 && s.lower < all[i-1].upper {
				t.Fatalf("seed %d round %d: span %s to %s after one to %s", seed, round, timeOf(s.lower), timeOf(s.upper), timeOf(all[max(0, i-1)].upper))
			}
		}
		for _, at := range times {
			if _, found := covering(all, at); !found {
				t.Fatalf("seed %d round %d: nothing covers %s", seed, round, timeOf(at))
			}
		}
		now = now.Add(7 * time.Hour) // a month made for a wrong clock comes near
	}
	names := map[string]bool{}
	for _, s := range all {
		if names[s.name()] {
			t.Errorf("two partitions are named %s", s.name())
		}
		names[s.name()] = true
	}
	// 292 years by the month at most, and a day for each day that passed.
	if len(all) > 293*12+200 {
		t.Errorf("%d partitions", len(all))
	}
}

func TestPartitionsAreMadeOnDemandForAnyTime(t *testing.T) {
	t.Parallel()
	url := database(t, shared)
	h := open(t, url, Options{})
	now := time.Now().UTC()
	day := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, time.UTC)
	times := []time.Time{
		time.Unix(0, 0), time.Unix(0, maxTimestamp), now, day, day.Add(-1), day.Add(-1000), now.AddDate(0, 0, -400), now.AddDate(30, 0, 0), now.AddDate(0, 0, 10),
	}
	var batch []*value.Value
	for i, at1 := range times {
		batch = append(batch, at("a", at1, fmt.Sprint(i)))
	}
	mustAppend(t, h, batch...)
	slices.SortFunc(batch, func(a, b *value.Value) int { return int(max(-1, min(1, a.Timestamp-b.Timestamp))) })
	var want []string
	for _, v := range batch {
		want = append(want, string(v.Body))
	}
	if got := bodies(t, h, "a"); !slices.Equal(got, want) {
		t.Fatalf("rows %q, want %q", got, want)
	}
	// What PostgreSQL has and what the catalogue says are the same.
	if n := number(t, url, `SELECT count(*)::int FROM maestrohub.value_partition p
		FULL JOIN pg_inherits i ON i.inhrelid = ('maestrohub.' || p.name)::regclass AND i.inhparent = 'maestrohub.value'::regclass
		WHERE (i.inhparent = 'maestrohub.value'::regclass OR i.inhparent IS NULL) AND (p.name IS NULL OR i.inhrelid IS NULL)`); n != 0 {
		t.Errorf("%d partitions are in one of the catalogues only", n)
	}
}

func TestPartitionsOfTheDaysToComeAreMadeAhead(t *testing.T) {
	t.Parallel()
	url := database(t, shared)
	h := open(t, url, Options{})
	sweep(t, h)
	if n := number(t, url, `SELECT count(*)::int FROM maestrohub.value_partition WHERE upper - lower = interval '1 day'
		AND lower >= date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'`); n != daysAhead+1 {
		t.Errorf("%d days have a partition, want today and %d", n, daysAhead)
	}
}

// sweep sweeps until it is this sweeper's turn: Open's own may be at it.
func sweep(t *testing.T, h *Historian) {
	t.Helper()
	for mine := false; !mine; {
		var err error
		if mine, err = h.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRetentionHidesAtOnceAndDropsWholePartitions(t *testing.T) {
	t.Parallel()
	url := database(t, shared)
	keeping := open(t, url, Options{})
	now := time.Now()
	mustAppend(t, keeping, at("a", now.AddDate(-3, 0, 0), "years"), at("a", now.AddDate(0, 0, -12), "days"), at("a", now.Add(-9*24*time.Hour), "edge"), at("a", now, "now"))
	if err := keeping.Close(); err != nil {
		t.Fatal(err)
	}
	h := open(t, url, Options{MaxAge: 9*24*time.Hour - time.Minute})
	if got := bodies(t, h, "#"); !slices.Equal(got, []string{"now"}) {
		t.Fatalf("rows %q, want those young enough", got)
	}
	sweep(t, h)
	if n := number(t, url, "SELECT count(*)::int FROM maestrohub.value"); n > 2 {
		t.Errorf("%d rows are left, at most the day of the youngest that is too old may be", n)
	}
	if n := number(t, url, "SELECT count(*)::int FROM maestrohub.value_partition WHERE dropping"); n != 0 {
		t.Errorf("%d partitions are still to be dropped", n)
	}
	// A value that old is taken, and a partition made for it again.
	v := at("a", now.AddDate(-3, 0, 0), "years")
	mustAppend(t, h, v, at("a", now, "new"))
	if got := bodies(t, h, "#"); !slices.Equal(got, []string{"now", "new"}) {
		t.Fatalf("rows %q", got)
	}
}

func TestInterruptedRemovalIsGoneOnWith(t *testing.T) {
	t.Parallel()
	url := database(t, shared)
	h := open(t, url, Options{})
	mustAppend(t, h, at("a", time.Now().AddDate(-3, 0, 0), "years"), at("a", time.Now().AddDate(-2, 0, 0), "years"))
	_ = h.Close()
	var names []string
	conn := connect(t, url)
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), "SELECT name FROM maestrohub.value_partition ORDER BY lower LIMIT 2")
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	// One was detached and not dropped; the detaching of the other was cut off: a
	// transaction that uses it keeps it pending, its starter is ended.
	exec(t, url, "ALTER TABLE maestrohub.value DETACH PARTITION maestrohub."+names[0]+" CONCURRENTLY")
	exec(t, url, "UPDATE maestrohub.value_partition SET dropping = true WHERE name = '"+names[0]+"'")
	reader := connect(t, url)
	defer reader.Close(t.Context())
	if _, err := reader.Exec(t.Context(), "BEGIN; SELECT FROM maestrohub.value", nil...); err != nil {
		t.Fatal(err)
	}
	detaching := connect(t, url)
	defer detaching.Close(t.Context())
	if _, err := detaching.Exec(t.Context(), "SET statement_timeout = '300ms'"); err != nil {
		t.Fatal(err)
	}
	if _, err := detaching.Exec(t.Context(), "ALTER TABLE maestrohub.value DETACH PARTITION maestrohub."+names[1]+" CONCURRENTLY"); err == nil {
		t.Fatal("the partition was detached under a reader")
	}
	if _, err := reader.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if n := number(t, url, "SELECT count(*)::int FROM pg_inherits WHERE inhdetachpending"); n != 1 {
		t.Fatalf("%d partitions are pending, the test wants 1", n)
	}
	// Values go on being stored, also where a partition has to be made.
	h = open(t, url, Options{})
	mustAppend(t, h, at("a", time.Now().AddDate(-1, 0, 0), "a year"), at("a", time.Now().AddDate(5, 0, 0), "in years"))
	_ = h.Close()
	h = open(t, url, Options{MaxAge: 24 * time.Hour})
	sweep(t, h)
	if n := number(t, url, "SELECT count(*)::int FROM pg_class WHERE relname = '"+names[0]+"' OR relname = '"+names[1]+"'"); n != 0 {
		t.Errorf("%d of the two tables are still there", n)
	}
}

// A backup reads for hours; retention waits for it, values do not.
func TestLongReaderHoldsUpRetentionOnly(t *testing.T) {
	t.Parallel()
	url := database(t, shared)
	keeping := open(t, url, Options{})
	mustAppend(t, keeping, at("a", time.Now().AddDate(-3, 0, 0), "years"))
	backup := connect(t, url)
	defer backup.Close(t.Context())
	if _, err := backup.Exec(t.Context(), "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM maestrohub.value"); err != nil {
		t.Fatal(err)
	}
	h := open(t, url, Options{MaxAge: 24 * time.Hour})
	for err := error(nil); err == nil; {
		_, err = h.sweep(t.Context()) // no error: Open's own sweep has the turn, or had it before the value came
	}
	mustAppend(t, keeping, at("a", time.Now().AddDate(4, 0, 0), "needs a partition"))
	if _, err := backup.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	sweep(t, h)
	if n := number(t, url, "SELECT count(*)::int FROM maestrohub.value"); n != 1 {
		t.Errorf("%d rows, want the new one", n)
	}
}

func TestPartitionRemovedBehindTheCacheIsMadeAgain(t *testing.T) {
	t.Parallel()
	url := database(t, shared)
	a, b := open(t, url, Options{}), open(t, url, Options{MaxAge: 24 * time.Hour})
	old := time.Now().AddDate(-1, 0, 0)
	mustAppend(t, a, at("a", old, "1"))
	sweep(t, b)
	mustAppend(t, a, at("a", old.Add(1), "2"), at("a", time.Now(), "3"))
	if got := bodies(t, a, "a"); !slices.Equal(got, []string{"2", "3"}) {
		t.Fatalf("rows %q", got)
	}
}

func TestNewestOfAQuietTopicIsFoundOverManyPartitions(t *testing.T) {
	t.Parallel()
	h := open(t, database(t, shared), Options{})
	now := time.Now()
	var batch []*value.Value
	for day := range 60 {
		batch = append(batch, at("busy", now.AddDate(0, 0, -day/2).Add(-time.Duration(day)*time.Minute), fmt.Sprint(day)))
	}
	batch = append(batch, at("quiet", now.AddDate(-2, 0, 0), "long ago"), at("quiet", now.AddDate(0, 0, -29), "a month ago"))
	mustAppend(t, h, batch...)
	for limit, want := range map[int]int{1: 1, 2: 2, 50: 2} {
		page, err := h.Read(t.Context(), historian.Query{Workspace: "acme", Topic: "quiet", To: 1<<63 - 1, Newest: true, Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Rows) != want || string(page.Rows[0].Body) != "a month ago" || (page.Next != "") != (limit == 1) {
			t.Errorf("the newest %d: %d rows, next %q", limit, len(page.Rows), page.Next)
		}
	}
}
