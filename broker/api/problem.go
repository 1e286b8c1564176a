package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// problem is the body of every refusal but those of the token endpoint, as RFC
// 9457 has it (application/problem+json). Detail is for a person and names the
// thing, its value and what is allowed; Code is for a program.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	// Code is one of the constants below.
	Code   string `json:"code"`
	Detail string `json:"detail"`
	// Results holds one entry per value of a write, in the order sent; only in
	// the answer to a write.
	Results []writeResult `json:"results,omitempty"`
}

// The codes a problem may carry. They are part of the API: openapi.yaml lists
// the same, which a test checks.
const (
	codeBadRequest    = "bad_request"       // the request cannot be read at all
	codeParameter     = "invalid_parameter" // a query or path parameter is out of its range
	codeBody          = "invalid_body"      // the JSON body is not what the operation takes
	codeMediaType     = "unsupported_media_type"
	codeTooLarge      = "too_large"
	codeUnauthorized  = "unauthorized"    // no valid credential
	codeThrottled     = "throttled"       // too many failed sign-ins
	codeScope         = "missing_scope"   // signed in, but without the scope this needs
	codeWorkspace     = "other_workspace" // signed in to another workspace
	codeNotGranted    = "not_granted"     // no grant on the topic, or more than the caller holds itself
	codeNotFound      = "not_found"       // no such route or object
	codeMethod        = "method_not_allowed"
	codeExists        = "already_exists" // an API client of that id is there
	codeRefused       = "values_refused" // at least one value of a write was; results says which are stored all the same
	codeUnavailable   = "unavailable"    // the store cannot serve now
	codeBusy          = "too_many_requests_at_once"
	codeUnknownResult = "outcome_unknown" // no answer within the bound: the values may be stored
	codeInternal      = "internal_error"  // a fault of the broker
)

var problemCodes = []string{
	codeBadRequest, codeParameter, codeBody, codeMediaType, codeTooLarge, codeUnauthorized, codeThrottled, codeScope, codeWorkspace,
	codeNotGranted, codeNotFound, codeMethod, codeExists, codeRefused, codeUnavailable, codeBusy, codeUnknownResult, codeInternal,
}

// refusal is an error that knows its HTTP answer.
type refusal struct {
	status int
	code   string
	detail string
	// retry, if not 0, becomes Retry-After.
	retry time.Duration
}

func (r *refusal) Error() string { return r.detail }

func refuse(status int, code, format string, args ...any) *refusal {
	return &refusal{status: status, code: code, detail: fmt.Sprintf(format, args...)}
}

// after sets when the caller may come back.
func (r *refusal) after(d time.Duration) *refusal {
	r.retry = d
	return r
}

// write sends the refusal.
func (r *refusal) write(w http.ResponseWriter) {
	writeProblem(w, r.retry, problem{Status: r.status, Code: r.code, Detail: r.detail})
}

func writeProblem(w http.ResponseWriter, retry time.Duration, p problem) {
	p.Type, p.Title = "about:blank", http.StatusText(p.Status)
	if retry > 0 {
		w.Header().Set("Retry-After", retryAfter(retry))
	}
	writeBody(w, p.Status, "application/problem+json", p)
}

// retryAfter rounds up to whole seconds, the unit of the header: never 0.
func retryAfter(d time.Duration) string {
	return strconv.FormatInt(max(1, int64((d+time.Second-1)/time.Second)), 10)
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	writeBody(w, status, "application/json", body)
}

// writeBody encodes before it sends the header, so that a body that cannot be
// encoded is an error the caller sees and not a 200 cut short.
func writeBody(w http.ResponseWriter, status int, contentType string, body any) {
	data, err := encode(body)
	if err != nil {
		// Every body type here is ours, and the values in it are stored JSON: this
		// is a damaged row, which the caller must not take for an empty answer.
		status, contentType = http.StatusInternalServerError, "application/problem+json"
		data, _ = encode(problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Code: codeInternal,
			Detail: "the answer could not be encoded: " + err.Error()})
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = w.Write(data) // the peer is gone: nobody is left to tell
}

// encode writes JSON as people read it too: no answer is put into a page as it is, so < and
// > need no escape.
func encode(body any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(body)
	return b.Bytes(), err
}
