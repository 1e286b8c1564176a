package timescale

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"maestrohub.io/uns/broker/historian"
)

// Without TimescaleDB the table of rows is partitioned by time in ranges: a day each
// around now, so that retention is exact to the day, a month each where only values
// with a wrong clock or an import of old history fall, so that no clock can make
// partitions by the thousand. What partitions there are is in value_partition.

// span is a range of time, in PostgreSQL's microseconds; upper is not part of it.
type span struct{ lower, upper int64 }

// dailyBack and dailyAhead bound the days that get a partition each.
const (
	dailyBack  = 31 * 24 * time.Hour
	dailyAhead = 3 * 24 * time.Hour
)

// partitions knows spans that have a partition: a copy of value_partition, which may
// be behind.
type partitions struct {
	mu    sync.Mutex
	spans []span // sorted
}

func (p *partitions) forget() { p.learn(nil) }

func (p *partitions) learn(spans []span) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spans = spans
}

// missing returns the times that no known partition covers.
func (p *partitions) missing(rows []*row) []int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	var times []int64
	last := span{}
	for _, r := range rows {
		if r.micros >= last.lower && r.micros < last.upper {
			continue
		}
		at, found := covering(p.spans, r.micros)
		if !found {
			times = append(times, r.micros)
			continue
		}
		last = p.spans[at]
	}
	return times
}

// covering returns the span that covers a time, or where one would be inserted.
func covering(spans []span, at int64) (int, bool) {
	return slices.BinarySearchFunc(spans, at, func(s span, at int64) int {
		switch {
		case s.upper <= at:
			return -1
		case s.lower > at:
			return 1
		}
		return 0
	})
}

// planSpans returns the spans to make so that all times are covered: the day or month
// of each, cut where it meets a span that is there.
func planSpans(existing []span, times []int64, now time.Time) []span {
	all := slices.Clone(existing)
	var plan []span
	for _, at := range times {
		i, found := covering(all, at)
		if found {
			continue
		}
		s := natural(at, now)
		if i > 0 {
			s.lower = max(s.lower, all[i-1].upper)
		}
		if i < len(all) {
			s.upper = min(s.upper, all[i].lower)
		}
		all = slices.Insert(all, i, s)
		plan = append(plan, s)
	}
	return plan
}

// natural is the whole day (UTC) or month of a time.
func natural(at int64, now time.Time) span {
	t := timeOf(at)
	if !t.Before(now.Add(-dailyBack)) && t.Before(now.Add(dailyAhead)) {
		day := time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
		return span{microsOf(day), microsOf(day.AddDate(0, 0, 1))}
	}
	month := time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
	return span{microsOf(month), microsOf(month.AddDate(0, 1, 0))}
}

func microsOf(t time.Time) int64 { return t.UnixMicro() - epochMicros }

func timeOf(micros int64) time.Time { return time.UnixMicro(micros + epochMicros).UTC() }

// name is the partition's table name, for people: value_20261102 for a day.
func (s span) name() string {
	const day = "20060102"
	first, last := timeOf(s.lower), timeOf(s.upper-1)
	if first.Format(day) == last.Format(day) {
		return "value_" + first.Format(day)
	}
	return "value_" + first.Format(day) + "_" + last.Format(day)
}

// makeRoom makes the partitions that rows need.
func (h *Historian) makeRoom(ctx context.Context, s *session, rows []*row) error {
	if *s.known.storage.Load() != partitioned {
		return nil
	}
	if times := s.known.partitions.missing(rows); len(times) > 0 {
		return h.makePartitions(ctx, s, s.known, times)
	}
	return nil
}

// makePartitions makes the partitions for times, one replica at a time. ATTACH lets
// others go on writing meanwhile, which CREATE TABLE ... PARTITION OF does not.
func (h *Historian) makePartitions(ctx context.Context, on beginner, known *knowledge, times []int64) error {
	tx, err := on.Begin(ctx)
	if err != nil {
		return err
	}
	defer abandon(ctx, tx.Rollback)
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", pgx.QueryExecModeExec, h.lockKey(lockPartitions)); err != nil {
		return err
	}
	existing, err := h.listPartitions(ctx, tx)
	if err != nil {
		return err
	}
	spans := make([]span, 0, len(existing))
	for _, p := range existing {
		if p.dropping && covers(p.span, times) {
			// Too old to be kept for long; after that there is room again.
			return fmt.Errorf("%w: the partition %s is being removed", historian.ErrUnavailable, p.name)
		}
		spans = append(spans, p.span)
	}
	plan := planSpans(spans, times, time.Now())
	for _, n := range plan {
		lower, upper := timeOf(n.lower), timeOf(n.upper)
		if err := h.run(ctx, tx, fmt.Sprintf(`
			CREATE TABLE @schema.%[1]s (LIKE @schema.value INCLUDING ALL);
			ALTER TABLE @schema.value ATTACH PARTITION @schema.%[1]s FOR VALUES FROM ('%[2]s') TO ('%[3]s');
			INSERT INTO @schema.value_partition (name, lower, upper) VALUES ('%[1]s', '%[2]s', '%[3]s')`,
			n.name(), lower.Format(time.RFC3339Nano), upper.Format(time.RFC3339Nano))); err != nil {
			return fmt.Errorf("make the partition %s: %w", n.name(), err)
		}
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	spans = append(spans, plan...)
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.lower, b.lower) })
	known.partitions.learn(spans)
	return nil
}

func covers(s span, times []int64) bool {
	return slices.ContainsFunc(times, func(at int64) bool { return at >= s.lower && at < s.upper })
}

// partition is a line of value_partition.
type partition struct {
	name string
	span
	dropping bool
}

// listPartitions returns value_partition in the order of time.
func (h *Historian) listPartitions(ctx context.Context, on querier) ([]partition, error) {
	rows, err := on.Query(ctx, h.sql.Replace(`SELECT name, lower, upper, dropping FROM @schema.value_partition ORDER BY lower`), pgx.QueryExecModeExec)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (partition, error) {
		var p partition
		var lower, upper pgtype.Timestamptz
		err := row.Scan(&p.name, &lower, &upper, &p.dropping)
		p.span = span{microsOf(lower.Time), microsOf(upper.Time)}
		return p, err
	})
}

// beginner is a connection, of a pool or not.
type beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}
