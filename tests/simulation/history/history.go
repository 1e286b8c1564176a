package history

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/topic"
	"maestrohub.io/uns/broker/value"
)

// History is what is stored.
type History struct {
	// Stored, if set, is told of every batch once it is stored, by whom.
	Stored func(client string)

	mu       sync.Mutex
	rows     []row // in the order of place
	by       map[key]uint64
	position uint64
}

// New returns an empty History.
func New() *History { return &History{by: map[key]uint64{}} }

// key is what makes two values the same.
type key struct {
	workspace, topic, publisher string
	timestamp                   int64
	row                         uint64
	digest                      [sha256.Size]byte
}

func keyOf(v *value.Value) key {
	k := key{workspace: v.Workspace, topic: v.Topic, publisher: v.Publisher, timestamp: v.Timestamp}
	if !v.Timed {
		k.row = v.RowID
	}
	k.digest = sha256.Sum256(fmt.Appendf(nil, "%t %d %d %s", v.Timed, v.Kind, v.Quality, v.Body))
	return k
}

type row struct {
	workspace string
	historian.Row
}

// place orders rows: by time, then as they came.
func (r *row) before(timestamp int64, position uint64) bool {
	return cmp.Or(cmp.Compare(r.Timestamp, timestamp), cmp.Compare(r.Position, position)) < 0
}

// check says why a value can be in no historian.
func check(v *value.Value) error {
	switch {
	case v.Workspace == "":
		return errors.New("no workspace")
	case v.Topic == "" || len(v.Topic) >= 1<<16 || strings.IndexByte(v.Topic, 0) >= 0:
		return fmt.Errorf("topic of %d bytes, or with a zero byte", len(v.Topic))
	case v.Timestamp < 0:
		return fmt.Errorf("timestamp %d is before 1970", v.Timestamp)
	}
	return nil
}

// store stores a batch, whole or not at all, and returns the positions.
func (h *History) store(values []*value.Value) ([]uint64, error) {
	for i, v := range values {
		if err := check(v); err != nil {
			return nil, &historian.ValueError{Index: i, Err: err}
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	positions := make([]uint64, len(values))
	for i, v := range values {
		k := keyOf(v)
		p, there := h.by[k]
		if !there {
			h.position++
			p = h.position
			h.by[k] = p
			r := row{v.Workspace, historian.Row{Topic: v.Topic, Publisher: v.Publisher, Timestamp: v.Timestamp, Received: v.Received, Timed: v.Timed,
				Quality: v.Quality, Kind: v.Kind, Body: append([]byte{}, v.Body...), Position: p}}
			at, _ := slices.BinarySearchFunc(h.rows, r, func(have, want row) int {
				if have.before(want.Timestamp, want.Position) {
					return -1
				}
				return 1
			})
			h.rows = slices.Insert(h.rows, at, r)
		}
		positions[i] = p
	}
	return positions, nil
}

// Rows returns everything stored in a workspace, in the order of time.
func (h *History) Rows(workspace string) []historian.Row {
	h.mu.Lock()
	defer h.mu.Unlock()
	var rows []historian.Row
	for _, r := range h.rows {
		if r.workspace == workspace {
			rows = append(rows, r.Row)
		}
	}
	return rows
}

// read returns a page.
func (h *History) read(q historian.Query) (historian.Page, error) {
	if q.Workspace == "" {
		return historian.Page{}, fmt.Errorf("%w: no workspace", historian.ErrQuery)
	}
	if err := topic.ValidateFilter(q.Topic); err != nil {
		return historian.Page{}, fmt.Errorf("%w: %w", historian.ErrQuery, err)
	}
	if q.To <= q.From || q.Limit < 0 {
		return historian.Page{}, fmt.Errorf("%w: from %d to %d, limit %d", historian.ErrQuery, q.From, q.To, q.Limit)
	}
	limit := min(cmp.Or(q.Limit, historian.DefaultLimit), historian.MaxLimit)
	var after *cursor
	if q.After != "" {
		var err error
		if after, err = parseCursor(q.After, q.Newest); err != nil {
			return historian.Page{}, err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	visible := map[string]bool{}
	var page historian.Page
	size := 0
	for n := range h.rows {
		r := &h.rows[n]
		if q.Newest {
			r = &h.rows[len(h.rows)-1-n]
		}
		if r.workspace != q.Workspace || r.Timestamp < q.From || r.Timestamp >= q.To || !topic.MatchBelow(q.Topic, r.Topic) || !after.beyond(r) {
			continue
		}
		if q.Visible != nil {
			if _, asked := visible[r.Topic]; !asked {
				visible[r.Topic] = q.Visible(r.Topic)
			}
			if !visible[r.Topic] {
				continue
			}
		}
		if size += len(r.Body); len(page.Rows) == limit || size > historian.PageBytes && len(page.Rows) > 0 {
			last := page.Rows[len(page.Rows)-1]
			page.Next = cursor{q.Newest, last.Timestamp, last.Position}.String()
			break
		}
		page.Rows = append(page.Rows, r.Row)
	}
	return page, nil
}

// cursor is the place of a page's last row.
type cursor struct {
	newest    bool
	timestamp int64
	position  uint64
}

func (c cursor) String() string {
	text := fmt.Sprintf("%t %d %d", c.newest, c.timestamp, c.position)
	sum := sha256.Sum256([]byte(text))
	return text + " " + hex.EncodeToString(sum[:4])
}

func parseCursor(text string, newest bool) (*cursor, error) {
	var c cursor
	var sum string
	if _, err := fmt.Sscanf(text, "%t %d %d %s", &c.newest, &c.timestamp, &c.position, &sum); err != nil || c.String() != text || c.newest != newest {
		return nil, fmt.Errorf("%w: the cursor is of no page of this query", historian.ErrQuery)
	}
	return &c, nil
}

// beyond reports whether a row comes after the cursor, in the order of the query.
func (c *cursor) beyond(r *row) bool {
	switch {
	case c == nil:
		return true
	case c.newest:
		return r.before(c.timestamp, c.position)
	default:
		return !r.before(c.timestamp, c.position) && (r.Timestamp != c.timestamp || r.Position != c.position)
	}
}

var errClosed = fmt.Errorf("%w: closed", historian.ErrUnavailable)

// ended is a context's error, as an answer that did not come in time.
func ended(ctx context.Context) error { return fmt.Errorf("no answer in time: %w", ctx.Err()) }
