package api

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"time"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/topic"
	"maestrohub.io/uns/broker/value"
)

// Bounds of a page, of history as of every other list.
const (
	defaultPage = 100
	maxPage     = 1000
)

// storedValue is a value as history and the retained store give it back.
type storedValue struct {
	Topic     string          `json:"topic"`
	Timestamp time.Time       `json:"timestamp"`
	Timed     bool            `json:"timed,omitempty"`
	Received  time.Time       `json:"received"`
	Publisher string          `json:"publisher"`
	Quality   int             `json:"quality"`
	Value     json.RawMessage `json:"value,omitempty"`
	// Opaque is a pointer so that no bytes at all are still an opaque value.
	Opaque *[]byte `json:"opaque,omitempty"`
}

func (s *storedValue) setBody(kind value.Kind, body []byte) {
	if kind == value.Opaque {
		if body == nil {
			body = []byte{}
		}
		s.Opaque = &body
		return
	}
	s.Value = body
}

type page struct {
	Values []storedValue `json:"values"`
	Next   string        `json:"next,omitempty"`
}

func (a *API) history(w http.ResponseWriter, r *http.Request, c caller) *refusal {
	workspace, refused := c.inWorkspace(r)
	if refused != nil {
		return refused
	}
	q := newQuery(r, "topic", "from", "to", "order", "limit", "after")
	read := historian.Query{
		Workspace: workspace,
		Topic:     q.topicFilter("topic"),
		From:      q.instant("from", 0),
		To:        q.instant("to", math.MaxInt64),
		Newest:    q.oneOf("order", "oldest", "newest") == "newest",
		Limit:     q.integer("limit", defaultPage, 1, maxPage),
		After:     q.text("after", ""),
		Visible:   c.visible(a.o.Grammar, workspace),
	}
	if read.From >= read.To {
		q.refuse("from %q: must be before to %q", q.values.Get("from"), q.values.Get("to"))
	}
	if q.refused != nil {
		return q.refused
	}
	ctx, cancel := context.WithTimeout(r.Context(), readBound)
	defer cancel()
	free, refused := a.reads.wait(ctx, c)
	if refused != nil {
		return refused
	}
	defer free() // once the page is written: it is the page that takes the memory
	began := time.Now()
	found, err := a.o.History.Read(ctx, read)
	a.o.Metrics.HistorianReadSeconds.Observe(time.Since(began).Seconds())
	a.o.Metrics.HistorianReads.WithLabelValues(readResult(err)).Inc()
	switch {
	case errors.Is(err, historian.ErrQuery):
		return refuse(http.StatusBadRequest, codeParameter, "%v", err)
	case err != nil:
		a.o.Log.Warn("history cannot be read", "workspace", workspace, "error", historian.Details(err))
		return refuse(http.StatusServiceUnavailable, codeUnavailable, "the historian cannot be read now").after(retrySoon)
	}
	p := page{Values: make([]storedValue, len(found.Rows)), Next: found.Next}
	for i, row := range found.Rows {
		p.Values[i] = storedValue{Topic: row.Topic, Timestamp: instant(row.Timestamp), Timed: row.Timed, Received: instant(row.Received),
			Publisher: row.Publisher, Quality: int(row.Quality)}
		p.Values[i].setBody(row.Kind, row.Body)
	}
	writeJSON(w, http.StatusOK, p)
	return nil
}

func readResult(err error) string {
	if err != nil && !errors.Is(err, historian.ErrQuery) {
		return "error"
	}
	return "ok"
}

// topicFilter reads a filter of topics below the workspace.
func (q *query) topicFilter(name string) string {
	filter := q.text(name, "#")
	if err := topic.ValidateFilter(filter); err != nil {
		q.refuse("%s %q: %v", name, filter, err)
	}
	return filter
}

func instant(ns int64) time.Time { return time.Unix(0, ns).UTC() }
