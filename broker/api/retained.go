package api

import (
	"context"
	"net/http"
	"sort"

	"maestrohub.io/uns/broker/value"
)

// retained answers with the last values of retaining topics, paged by name: the
// set changes while it is read, so a page continues after a topic, not a count.
func (a *API) retained(w http.ResponseWriter, r *http.Request, c caller) *refusal {
	workspace, refused := c.inWorkspace(r)
	if refused != nil {
		return refused
	}
	q := newQuery(r, "topic", "limit", "after")
	filter, limit, after := q.topicFilter("topic"), q.integer("limit", defaultPage, 1, maxPage), q.text("after", "")
	if q.refused != nil {
		return q.refused
	}
	ctx, cancel := context.WithTimeout(r.Context(), readBound)
	defer cancel()
	if err := a.o.Retained.CatchUp(ctx); err != nil {
		return refuse(http.StatusServiceUnavailable, codeUnavailable, "the retained messages are not known as they are now; try again").after(retrySoon)
	}
	visible := c.visible(a.o.Grammar, workspace)
	var found []*value.Value
	a.o.Retained.Match(a.o.Grammar.Data(workspace, filter), func(v *value.Value) bool {
		if v.Topic > after && v.Workspace == workspace && visible(v.Topic) {
			found = append(found, v)
		}
		return r.Context().Err() == nil
	})
	sort.Slice(found, func(i, j int) bool { return found[i].Topic < found[j].Topic })
	p := page{Values: []storedValue{}}
	if len(found) > limit {
		found = found[:limit]
		p.Next = found[limit-1].Topic
	}
	for _, v := range found {
		s := storedValue{Topic: v.Topic, Timestamp: instant(v.Timestamp), Timed: v.Timed, Received: instant(v.Received),
			Publisher: v.Publisher, Quality: int(v.Quality)}
		s.setBody(v.Kind, v.Body)
		p.Values = append(p.Values, s)
	}
	writeJSON(w, http.StatusOK, p)
	return nil
}
