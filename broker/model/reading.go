package model

import (
	"fmt"
	"math"
	"strconv"

	"maestrohub.io/uns/broker/value"
)

// Reading is a payload taken apart.
type Reading struct {
	Kind value.Kind
	// Body is the value in the payload, which it is a part of: the "value" of an
	// envelope, else all of it without the space around.
	Body []byte
	// Timestamp is the envelope's, nanoseconds since the Unix epoch, if Timed.
	Timestamp int64
	Timed     bool
	// Quality is the envelope's, value.Good if it gives none.
	Quality value.Quality

	// number is Body as a number, if numeric.
	number  float64
	numeric bool
}

// The rules a payload can violate, as Violation and the metrics name them.
const (
	RulePayload = "payload" // it is not a value, or its envelope is wrong
	RuleSchema  = "schema"  // of another type or shape than the topic's schema says
	RuleRange   = "range"   // outside the schema's hard range
	RuleQuality = "quality" // below the least quality of the topic
	RuleSize    = "size"    // larger than the topic takes
)

// Violation says why a payload is refused.
type Violation struct {
	Rule string
	// Detail names what was found and what is allowed, for the device's
	// developer; at most a few hundred bytes.
	Detail string
}

func (v *Violation) Error() string { return v.Rule + ": " + v.Detail }

// Read takes a payload apart and holds it against the topic's binding. What is
// returned aliases payload. Nothing is allocated unless it is refused, has
// escapes in its envelope or its schema is a JSON Schema.
func (t *Topic) Read(payload []byte) (Reading, *Violation) {
	r := Reading{Quality: value.Good}
	switch {
	case t.MaxPayloadBytes > 0 && len(payload) > t.MaxPayloadBytes:
		return r, refuse(RuleSize, "payload has %d bytes, this topic takes at most %d", len(payload), t.MaxPayloadBytes)
	case len(payload) == 0:
		return r, refuse(RulePayload, "payload is empty: a value is needed")
	case t.Type == Opaque:
		r.Kind, r.Body = value.Opaque, payload
		return r, nil
	}
	e, problem := open(payload)
	if problem != "" {
		return r, refuse(RulePayload, "%s", problem)
	}
	r.Body = e.body.of(payload)
	if e.timestamp != (span{}) {
		text := e.timestamp.of(payload)
		if r.Timestamp, problem = parseTimestamp(text); problem != "" {
			return r, refuse(RulePayload, "timestamp %s %s", excerpt(text), problem)
		}
		r.Timed = true
	}
	if e.quality != (span{}) {
		text, ok := e.quality.of(payload), false
		if r.Quality, ok = parseQuality(text); !ok {
			return r, refuse(RulePayload, `quality %s is not "good", "uncertain", "bad" or 0 to 255`, excerpt(text))
		}
	}
	if v := t.check(&r, e, payload); v != nil {
		return r, v
	}
	if r.Quality.Grade() < t.MinQuality {
		return r, refuse(RuleQuality, "quality %d (%s) is below this topic's least, %s", uint8(r.Quality), r.Quality, t.MinQuality)
	}
	return r, nil
}

// check holds the value against the schema.
func (t *Topic) check(r *Reading, e envelope, payload []byte) *Violation {
	if t.Type != Any {
		got := typeOf(r.Body)
		if want := t.Type; got != want && !(got == Number && want == Integer) {
			hint := ""
			if e.other != (span{}) {
				hint = fmt.Sprintf(`; an envelope has only "value", "timestamp" and "quality", this has %s too`, excerpt(e.other.of(payload)))
			}
			return refuse(RuleSchema, "value is of type %s, schema %s wants %s%s", got, t.Schema, want, hint)
		}
		if got == Number {
			if v := t.checkNumber(r); v != nil {
				return v
			}
		}
	}
	if t.shape != nil {
		if problem := t.shape.check(r.Body); problem != "" {
			return refuse(RuleSchema, "value does not fit schema %s: %s", t.Schema, problem)
		}
	}
	return nil
}

func (t *Topic) checkNumber(r *Reading) *Violation {
	f, ok := parseNumber(r.Body)
	switch {
	case !ok:
		return refuse(RuleSchema, "number %s is beyond the range of a 64-bit float", excerpt(r.Body))
	case t.Type == Integer && f != math.Trunc(f):
		return refuse(RuleSchema, "value %s is not an integer, schema %s wants one", excerpt(r.Body), t.Schema)
	case f < t.min || f > t.max:
		return refuse(RuleRange, "value %s%s is outside %s", excerpt(r.Body), unit(t.Unit), t.hardRange())
	}
	r.number, r.numeric = f, true
	return nil
}

// hardRange is the schema's range in words.
func (t *Topic) hardRange() string {
	switch {
	case math.IsInf(t.min, -1):
		return "the schema's maximum of " + decimal(t.max) + unit(t.Unit)
	case math.IsInf(t.max, 1):
		return "the schema's minimum of " + decimal(t.min) + unit(t.Unit)
	}
	return "the schema's range of " + decimal(t.min) + " to " + decimal(t.max) + unit(t.Unit)
}

// typeOf returns the type of a JSON value of sound grammar; of null, which no
// schema but any allows, its name.
func typeOf(body []byte) Type {
	switch body[0] {
	case '{':
		return Object
	case '[':
		return Array
	case '"':
		return String
	case 't', 'f':
		return Boolean
	case 'n':
		return "null"
	}
	return Number
}

// parseNumber returns a JSON number as a float; ok is false if it is too large
// for one.
func parseNumber(body []byte) (f float64, ok bool) {
	f, err := strconv.ParseFloat(string(body), 64)
	return f, err == nil
}

// parseQuality reads a "quality" member.
func parseQuality(b []byte) (q value.Quality, ok bool) {
	if b[0] != '"' {
		n, err := strconv.ParseUint(string(b), 10, 8)
		return value.Quality(n), err == nil
	}
	switch string(b[1 : len(b)-1]) {
	case "good":
		return value.Good, true
	case "uncertain":
		return value.Uncertain, true
	case "bad":
		return value.Bad, true
	}
	return qualityNamed(unquote(b))
}

func qualityNamed(name string) (q value.Quality, ok bool) {
	for _, q := range []value.Quality{value.Good, value.Uncertain, value.Bad} {
		if q.String() == name {
			return q, true
		}
	}
	return 0, false
}

func refuse(rule, format string, args ...any) *Violation {
	return &Violation{Rule: rule, Detail: fmt.Sprintf(format, args...)}
}

// excerpt returns the beginning of a part of a payload for a message.
func excerpt(b []byte) string { return cut(string(b), 64) }

// cut shortens s to at most about n bytes, at a character's boundary.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + "..."
}

func unit(u string) string {
	if u == "" {
		return ""
	}
	return " " + u
}

// decimal writes a number as people do; very large ones with an exponent.
func decimal(f float64) string {
	if math.Abs(f) < 1e15 {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}
