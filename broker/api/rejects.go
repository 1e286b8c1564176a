package api

import (
	"net/http"
	"strconv"
	"time"
)

// reject is one refused publish as the feed shows it.
type reject struct {
	Sequence uint64    `json:"sequence"`
	Time     time.Time `json:"time"`
	Topic    string    `json:"topic"`
	Client   string    `json:"client"`
	ClientID string    `json:"clientId,omitempty"`
	QoS      byte      `json:"qos"`
	Reason   string    `json:"reason"`
	Detail   string    `json:"detail"`
}

// rejects answers with what was refused after a sequence. A caller who sees only
// its own is moved past the others', so that it never reads them again and never
// learns more of them than that they were.
func (a *API) rejects(w http.ResponseWriter, r *http.Request, c caller) *refusal {
	workspace, refused := c.inWorkspace(r)
	if refused != nil {
		return refused
	}
	q := newQuery(r, "after", "limit")
	after, limit := q.sequence("after"), q.integer("limit", defaultPage, 1, maxPage)
	if q.refused != nil {
		return q.refused
	}
	body := struct {
		Rejects []reject `json:"rejects"`
		Last    uint64   `json:"last"`
	}{Rejects: []reject{}, Last: after}
	for len(body.Rejects) < limit {
		found := a.o.Values.Rejects(workspace, body.Last, limit)
		if len(found) == 0 {
			break
		}
		for _, f := range found {
			if len(body.Rejects) == limit {
				break
			}
			body.Last = f.Sequence
			if !c.seesAll() && f.Client != c.id() {
				continue
			}
			body.Rejects = append(body.Rejects, reject{Sequence: f.Sequence, Time: f.Time.UTC(), Topic: f.Topic, Client: f.Client,
				ClientID: f.ClientID, QoS: f.QoS, Reason: f.Refusal.Reason(), Detail: f.Detail})
		}
	}
	writeJSON(w, http.StatusOK, body)
	return nil
}

func (q *query) sequence(name string) uint64 {
	v := q.values.Get(name)
	if v == "" {
		return 0
	}
	n, err := strconv.ParseUint(v, 10, 63)
	if err != nil {
		q.refuse("%s %q: must be the last of an answer before, a whole number from 0", name, v)
	}
	return n
}
