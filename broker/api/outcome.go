package api

import (
	"fmt"
	"net/http"

	"maestrohub.io/uns/broker/ingest"
)

// statusOf maps a refusal to the status its value alone would have, gravest
// first in the order of rank: what a retry cures outranks what it does not,
// because a caller that retries the whole write does so safely (values with a
// timestamp are stored once) and then meets the rest.
//
// A value that is stored all the same was not the caller's mistake, whatever failed
// behind the historian.
func statusOf(o ingest.Outcome) int {
	if o.Kept == ingest.Stored {
		return http.StatusServiceUnavailable
	}
	switch o.Refusal {
	case ingest.NotInbox, ingest.OtherWorkspace, ingest.OtherInbox, ingest.NotGranted:
		return http.StatusForbidden
	case ingest.TooLarge:
		return http.StatusRequestEntityTooLarge
	case ingest.TopicInvalid, ingest.Payload, ingest.Schema, ingest.Range, ingest.Quality, ingest.TooOld, ingest.Unstorable, ingest.LogRefused:
		return http.StatusUnprocessableEntity
	}
	return http.StatusServiceUnavailable
}

func rank(status int) int {
	switch status {
	case http.StatusServiceUnavailable:
		return 3
	case http.StatusForbidden:
		return 2
	case http.StatusRequestEntityTooLarge:
		return 1
	}
	return 0
}

// answerWrite sends what became of the values: 200 only if each is stored, or was an
// empty payload that cleared its topic's retained message.
func (a *API) answerWrite(w http.ResponseWriter, values []newValue, o *outcomes) {
	o.mu.Lock()
	results := make([]writeResult, len(values))
	status, refused, unknown := 0, 0, 0
	first := ""
	for i, v := range values {
		results[i] = writeResult{Topic: v.Topic, Stored: new(bool)}
		switch outcome := o.of[i]; {
		case !o.have[i]:
			results[i].Stored = nil
			results[i].Reason, results[i].Detail = codeUnknownResult, "no outcome within the bound: the value may be stored"
			unknown++
		case outcome.Refusal == 0:
			*results[i].Stored, results[i].Cleared = !outcome.Cleared, outcome.Cleared
		default:
			*results[i].Stored = outcome.Kept == ingest.Stored
			if outcome.Kept == ingest.MaybeStored {
				results[i].Stored = nil
			}
			results[i].Reason, results[i].Detail = outcome.Refusal.Reason(), outcome.Detail
			if s := statusOf(outcome); status == 0 || rank(s) > rank(status) {
				status, first = s, fmt.Sprintf("values[%d] (topic %q): %s", i, v.Topic, describe(results[i]))
			}
			refused++
		}
	}
	o.mu.Unlock()
	switch {
	case unknown > 0:
		writeProblem(w, retrySoon, problem{Status: http.StatusServiceUnavailable, Code: codeUnknownResult, Results: results,
			Detail: fmt.Sprintf("%d of %d values had no outcome within %s and may be stored", unknown, len(values), a.o.WriteWait)})
	case refused > 0:
		p := problem{Status: status, Code: codeRefused, Results: results, Detail: first}
		if refused > 1 {
			p.Detail = fmt.Sprintf("%d of %d values refused, among them %s", refused, len(values), first)
		}
		if status == http.StatusServiceUnavailable {
			writeProblem(w, retrySoon, p)
			return
		}
		writeProblem(w, 0, p)
	default:
		writeJSON(w, http.StatusOK, struct {
			Results []writeResult `json:"results"`
		}{results})
	}
}

func describe(r writeResult) string {
	text := r.Reason
	if r.Detail != "" {
		text += ": " + r.Detail
	}
	switch {
	case r.Stored == nil:
		text += " (it may be stored)"
	case *r.Stored:
		text += " (it is stored all the same)"
	}
	return text
}
