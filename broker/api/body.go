package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// readJSON decodes the request's body, at most limit bytes of application/json,
// into v. What is not exactly as v has it fails (strict.go): a misspelt
// "timestmap" must not be taken for a value without a timestamp.
func readJSON(w http.ResponseWriter, r *http.Request, limit int64, v any) *refusal {
	data, refused := readAll(w, r, limit, "application/json")
	if refused != nil {
		return refused
	}
	return decodeJSON(data, v)
}

func decodeJSON(data []byte, v any) *refusal {
	if err := checkStrictly(data, v); err != nil {
		return refuse(http.StatusBadRequest, codeBody, "body: %v", err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return refuse(http.StatusBadRequest, codeBody, "body: %s", describeJSON(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return refuse(http.StatusBadRequest, codeBody, "body: more than one JSON value; send exactly one")
	}
	return nil
}

// describeJSON rewords the decoder's errors for somebody who does not read Go.
func describeJSON(err error) string {
	var syntax *json.SyntaxError
	var typed *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Sprintf("not JSON at byte %d: %s", syntax.Offset, strings.TrimPrefix(syntax.Error(), "json: "))
	case errors.As(err, &typed):
		return fmt.Sprintf("member %q is a %s, which is not allowed there", typed.Field, typed.Value)
	case errors.Is(err, io.EOF):
		return "empty; a JSON object is needed"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "ends in the middle of a JSON value"
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// bodyType says what is wrong with how the request describes its body, which must
// be of the media type want, in UTF-8 if it names a character set, and not packed.
func bodyType(r *http.Request, want string) error {
	given := r.Header.Get("Content-Type")
	got, parameters, err := mime.ParseMediaType(given)
	if err != nil || got != want {
		return fmt.Errorf("Content-Type %q: must be %s", given, want)
	}
	if set, ok := parameters["charset"]; ok && !strings.EqualFold(set, "utf-8") {
		return fmt.Errorf("Content-Type %q: the charset must be utf-8", given)
	}
	for _, coding := range r.Header.Values("Content-Encoding") {
		if !strings.EqualFold(coding, "identity") {
			return fmt.Errorf("Content-Encoding %q: the body must be sent as it is", coding)
		}
	}
	return nil
}

// readAll reads a body of the given media type, at most limit bytes.
func readAll(w http.ResponseWriter, r *http.Request, limit int64, want string) ([]byte, *refusal) {
	if err := bodyType(r, want); err != nil {
		return nil, refuse(http.StatusUnsupportedMediaType, codeMediaType, "%v", err)
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, refuse(http.StatusRequestEntityTooLarge, codeTooLarge, "body: larger than the %d bytes allowed here", limit)
	case err != nil:
		return nil, refuse(http.StatusBadRequest, codeBadRequest, "body: %v", err)
	}
	return data, nil
}

// query reads the query's parameters and keeps the first thing wrong with them.
type query struct {
	values  url.Values
	refused *refusal
}

// newQuery fails on a parameter it was not told of: a misspelt "form=" must not
// be answered with all of history.
func newQuery(r *http.Request, known ...string) *query {
	values, err := url.ParseQuery(r.URL.RawQuery)
	q := &query{values: values}
	if err != nil {
		q.refuse("query %q: %v", r.URL.RawQuery, err)
		return q
	}
	for name, all := range values {
		ok := false
		for _, k := range known {
			ok = ok || k == name
		}
		if !ok {
			q.refuse("parameter %q: unknown; this takes %s", name, strings.Join(known, ", "))
		} else if len(all) > 1 {
			q.refuse("parameter %q: given %d times, must be given once", name, len(all))
		}
	}
	return q
}

func (q *query) refuse(format string, args ...any) {
	if q.refused == nil {
		q.refused = refuse(http.StatusBadRequest, codeParameter, format, args...)
	}
}

func (q *query) text(name, otherwise string) string {
	if v := q.values.Get(name); v != "" {
		return v
	}
	return otherwise
}

func (q *query) integer(name string, otherwise, least, most int) int {
	v := q.values.Get(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < least || n > most {
		q.refuse("%s %q: must be a whole number from %d to %d", name, v, least, most)
	}
	return n
}

func (q *query) oneOf(name string, allowed ...string) string {
	v := q.text(name, allowed[0])
	for _, a := range allowed {
		if v == a {
			return v
		}
	}
	q.refuse("%s %q: must be one of %s", name, v, strings.Join(allowed, ", "))
	return allowed[0]
}

// instant reads a time, RFC 3339 or milliseconds since the Unix epoch, as
// nanoseconds since the epoch.
func (q *query) instant(name string, otherwise int64) int64 {
	v := q.values.Get(name)
	if v == "" {
		return otherwise
	}
	if ms, err := strconv.ParseInt(v, 10, 64); err == nil {
		if ms < 0 || ms > maxInstant.UnixMilli() {
			q.refuse("%s %q: must lie between 1970 and 2262", name, v)
			return otherwise
		}
		return ms * int64(time.Millisecond)
	}
	// A + in a query is a space; the offset of RFC 3339 is the one place it is meant.
	t, err := time.Parse(time.RFC3339Nano, strings.Replace(v, " ", "+", 1))
	if err != nil {
		q.refuse("%s %q: must be a time as in RFC 3339 (2026-01-31T08:00:00Z) or milliseconds since 1970", name, v)
		return otherwise
	}
	if t.Before(time.Unix(0, 0)) || t.After(maxInstant) {
		q.refuse("%s %q: must lie between 1970 and 2262", name, v)
		return otherwise
	}
	return t.UnixNano()
}

// maxInstant is the last whole day that nanoseconds since 1970 reach in 64 bits.
var maxInstant = time.Date(2262, 4, 11, 0, 0, 0, 0, time.UTC)
