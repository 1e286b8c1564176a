package timescale

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/topic"
	"maestrohub.io/uns/broker/value"
)

// reading is one Read on its way.
type reading struct {
	query    historian.Query
	from, to int64 // of the timestamps, with retention taken in
	after    *spot
	limit    int
	chosen   *chosen
	rows     []historian.Row
	bytes    int
	more     bool // a row was left out
}

// Read implements historian.Historian.
func (h *Historian) Read(ctx context.Context, q historian.Query) (historian.Page, error) {
	if err := h.enter(); err != nil {
		return historian.Page{}, err
	}
	defer h.calls.Done()
	r, err := h.reading(q)
	if err != nil {
		return historian.Page{}, err
	}
	err = h.bounded(ctx, h.opts.ReadTimeout, "read history", func(ctx context.Context) error {
		err := h.read(ctx, r)
		if judge(err) == reconnect {
			h.reads.Reset()
			if r, err = h.reading(q); err == nil {
				err = h.read(ctx, r)
			}
		}
		return h.unavailable(err)
	})
	if err != nil {
		return historian.Page{}, err
	}
	page := historian.Page{Rows: r.rows}
	if r.more {
		last := r.rows[len(r.rows)-1]
		page.Next = spot{last.Timestamp, last.Position}.cursor(q.Newest)
	}
	return page, nil
}

// reading checks a query.
func (h *Historian) reading(q historian.Query) (*reading, error) {
	if q.Workspace == "" {
		return nil, fmt.Errorf("%w: no workspace", historian.ErrQuery)
	}
	if err := topic.ValidateFilter(q.Topic); err != nil {
		return nil, fmt.Errorf("%w: %w", historian.ErrQuery, err)
	}
	if q.To <= q.From {
		return nil, fmt.Errorf("%w: to (%d) must be greater than from (%d)", historian.ErrQuery, q.To, q.From)
	}
	if q.Limit < 0 {
		return nil, fmt.Errorf("%w: limit %d, allowed 0 to %d", historian.ErrQuery, q.Limit, historian.MaxLimit)
	}
	r := &reading{query: q, from: max(q.From, 0), to: q.To}
	r.limit = min(cmp.Or(q.Limit, historian.DefaultLimit), historian.MaxLimit)
	if h.opts.MaxAge > 0 {
		r.from = max(r.from, time.Now().Add(-h.opts.MaxAge).UnixNano())
	}
	if q.After != "" {
		after, err := parseCursor(q.After, q.Newest)
		if err != nil {
			return nil, err
		}
		r.after = &after
		if q.Newest {
			r.to = min(r.to, after.timestamp+1)
		} else {
			r.from = max(r.from, after.timestamp)
		}
	}
	return r, nil
}

// maxGroup is how many partitions one statement reads at most.
const maxGroup = 64

// read reads partition by partition in the order of time, in groups that double in
// size: the last values of a busy topic are in the first, and those of a quiet one
// are found in a few statements, each of which plans for and locks no more than its
// own partitions. TimescaleDB does the like by itself, so a hypertable is read in
// one.
func (h *Historian) read(ctx context.Context, r *reading) error {
	s, err := h.session(ctx, h.reads)
	if err != nil {
		return err
	}
	defer s.release()
	if r.chosen, err = h.choose(ctx, s, r.query.Workspace, r.query.Topic, r.query.Visible); err != nil {
		return err
	}
	if r.chosen.empty() || r.to <= r.from {
		return nil
	}
	if *s.known.storage.Load() == hypertable {
		return h.readSpan(ctx, s, r, r.from, r.to)
	}
	spans, err := h.overlapping(ctx, s, r.from, r.to)
	if err != nil {
		return err
	}
	if r.query.Newest {
		slices.Reverse(spans)
	}
	for size := 1; len(spans) > 0 && !r.more; size = min(2*size, maxGroup) {
		group := spans[:min(size, len(spans))]
		spans = spans[len(group):]
		a, b := group[0], group[len(group)-1]
		lower, upper := min(a.lower, b.lower), max(a.upper, b.upper)
		if err := h.readSpan(ctx, s, r, max(r.from, join(lower, 0)), min(r.to, joinUpper(upper))); err != nil {
			return err
		}
	}
	return nil
}

// joinUpper is join for an upper bound, which may be beyond what nanoseconds reach.
func joinUpper(micros int64) int64 {
	if micros > math.MaxInt64/1000-epochMicros {
		return math.MaxInt64
	}
	return join(micros, 0)
}

// overlapping returns the partitions that may have rows in a range.
func (h *Historian) overlapping(ctx context.Context, s *session, from, to int64) ([]span, error) {
	all, err := h.listPartitions(ctx, s)
	if err != nil {
		return nil, err
	}
	lower, _ := split(from)
	upper, _ := split(to - 1)
	var spans []span
	for _, p := range all {
		if !p.dropping && p.upper > lower && p.lower <= upper {
			spans = append(spans, p.span)
		}
	}
	return spans, nil
}

// readSpan adds the rows with timestamps in [from, to) to the page, as many as fit.
func (h *Historian) readSpan(ctx context.Context, s *session, r *reading, from, to int64) error {
	statement, parameters := r.statement(from, to)
	result := s.Conn.Conn().PgConn().ExecParams(ctx, h.sql.Replace(statement), parameters, nil, binaryFormat, binaryFormat)
	for result.NextRow() {
		f := result.Values()
		if len(r.rows) == r.limit || f[9] == nil {
			r.more = true
			continue
		}
		row := historian.Row{
			Topic: string(f[0]), Timestamp: join(int64Of(f[1]), int16Of(f[2])), Position: uint64(int64Of(f[3])),
			Received: int64Of(f[4]), Quality: value.Quality(int16Of(f[5])), Kind: value.Kind(int16Of(f[6])), Timed: f[7][0] != 0,
			Publisher: string(f[8]), Body: slices.Clone(f[9]),
		}
		r.rows = append(r.rows, row)
		r.bytes += rowBytes + len(row.Publisher) + len(row.Body)
	}
	_, err := result.Close()
	return err
}

// rowBytes is what a row counts for in a page besides its publisher and body.
const rowBytes = 64

// statement makes the statement for a part of the range. The innermost select walks
// an index in the order of the page and ends at the limit; around it the sizes are
// summed up, and rows beyond PageBytes come without their bodies.
func (r *reading) statement(from, to int64) (string, [][]byte) {
	var p parameters
	order, beyond := "time, nanos, position", ">"
	if r.query.Newest {
		order, beyond = "time DESC, nanos DESC, position DESC", "<"
	}
	limit := p.int8(int64(r.limit - len(r.rows) + 1))
	where := r.bounds(&p, from, to, beyond)
	var inner string
	switch c := r.chosen; {
	case c.all:
		inner = "SELECT v.* FROM @schema.value v WHERE v.workspace_id = " + p.int4(c.workspace) + where
	case r.byTopic():
		inner = "SELECT v.* FROM unnest(" + p.int4s(c.ids) + ") AS c (id) CROSS JOIN LATERAL (SELECT v.* FROM @schema.value v WHERE v.topic_id = c.id" +
			where + " ORDER BY " + order + " LIMIT " + limit + ") v"
	default:
		inner = "SELECT v.* FROM @schema.value v WHERE v.workspace_id = " + p.int4(c.workspace) + " AND v.topic_id = ANY(" + p.int4s(c.ids) + ")" + where
	}
	size := fmt.Sprintf("octet_length(body) + octet_length(publisher) + %d", rowBytes)
	left := p.int8(int64(historian.PageBytes - r.bytes))
	fits := "running <= " + left
	if len(r.rows) == 0 {
		fits = "(" + fits + " OR running = size)" // one row, however large
	}
	return "SELECT t.name, v.time, v.nanos, v.position, v.received, v.quality, v.kind, v.timed, v.publisher, CASE WHEN " + fits + " THEN v.body END" +
		" FROM (SELECT *, " + size + " AS size, sum(" + size + ") OVER (ORDER BY " + order + " ROWS UNBOUNDED PRECEDING) AS running" +
		" FROM (" + inner + " ORDER BY " + order + " LIMIT " + limit + ") v) v JOIN @schema.topic t ON t.id = v.topic_id ORDER BY " +
		order, p.values
}

// bounds limits the rows to [from, to) and to what is beyond the cursor. The plain
// comparisons of time are for choosing partitions, the others for the index.
func (r *reading) bounds(p *parameters, from, to int64, beyond string) string {
	lower, lowerNanos := split(from)
	upper, upperNanos := split(to)
	last := upper
	if upperNanos > 0 {
		last++
	}
	where := " AND v.time >= " + p.timestamp(lower) + " AND v.time < " + p.timestamp(last)
	if lowerNanos > 0 {
		where += " AND (v.time, v.nanos) >= (" + p.timestamp(lower) + ", " + p.int2(lowerNanos) + ")"
	}
	if upperNanos > 0 {
		where += " AND (v.time, v.nanos) < (" + p.timestamp(upper) + ", " + p.int2(upperNanos) + ")"
	}
	if r.after != nil {
		micros, nanos := split(r.after.timestamp)
		where += " AND (v.time, v.nanos, v.position) " + beyond + " (" + p.timestamp(micros) + ", " + p.int2(nanos) + ", " + p.int8(int64(r.after.position)) + ")"
	}
	return where
}

// Bounds of reading topic by topic.
const (
	fewTopics     = 16        // read so whatever else
	manyLookedFor = 1000      // never read so
	mostFetched   = 1_000_000 // rows a page may be chosen from
)

// byTopic says whether to walk the index of each topic and merge, or the index of
// the workspace and pass over other topics. With m of n topics, all equally busy,
// the first reads m pages, the other n/m of them.
func (r *reading) byTopic() bool {
	m := len(r.chosen.ids)
	if m <= fewTopics {
		return true
	}
	return m <= manyLookedFor && m*m <= r.chosen.total && m*(r.limit+1) <= mostFetched
}

// parameters gathers the binary parameters of a statement and returns how each is
// named there.
type parameters struct{ values [][]byte }

func (p *parameters) add(v []byte, kind string) string {
	p.values = append(p.values, v)
	return fmt.Sprintf("$%d::%s", len(p.values), kind)
}

func (p *parameters) int2(v int16) string {
	return p.add(binary.BigEndian.AppendUint16(nil, uint16(v)), "smallint")
}

func (p *parameters) int4(v int32) string {
	return p.add(binary.BigEndian.AppendUint32(nil, uint32(v)), "int")
}

func (p *parameters) int8(v int64) string {
	return p.add(binary.BigEndian.AppendUint64(nil, uint64(v)), "bigint")
}

func (p *parameters) timestamp(micros int64) string {
	return p.add(binary.BigEndian.AppendUint64(nil, uint64(micros)), "timestamptz")
}

func (p *parameters) int4s(v []int32) string {
	var a arrays
	return p.add(a.encode(len(v), column{oidInt4, 4, func(dst []byte, i int) []byte { return binary.BigEndian.AppendUint32(dst, uint32(v[i])) }})[0], "int[]")
}
