package model

import (
	"fmt"
	"unicode/utf8"
)

// span is a part of a payload; the zero span is none, as no member's value
// begins at byte 0.
type span struct{ from, to int }

func (s span) of(b []byte) []byte { return b[s.from:s.to] }

// envelope is what a payload is made of.
type envelope struct {
	// body is where the value is; the others are zero without an envelope.
	body, timestamp, quality span
	// other is the name of the first member that makes an object with a member
	// "value" a value itself and no envelope.
	other span
	// twice is the name of a member an envelope has twice: parsers disagree on
	// which of the two counts, so none does.
	twice span
}

// open checks that payload is one JSON text and finds the value in it. The
// text is an envelope if it is an object with a member "value" and no members
// but "value", "timestamp" and "quality"; otherwise it is the value itself.
func open(payload []byte) (e envelope, problem string) {
	if !utf8.Valid(payload) {
		return e, "payload is not UTF-8"
	}
	s := scan{b: payload}
	s.space()
	if s.i == len(payload) {
		return e, "payload is empty: a value is needed"
	}
	start := s.i
	if payload[start] == '{' {
		e, problem = s.members()
	} else {
		problem = s.value(0)
	}
	end := s.i
	if problem == "" {
		if s.space(); s.i < len(payload) {
			problem = s.unexpected("the end")
		}
	}
	if problem != "" {
		return e, fmt.Sprintf("payload is not a JSON value this broker takes: at byte %d it %s", s.i, problem)
	}
	if e.twice != (span{}) {
		return e, fmt.Sprintf("payload's envelope has %s twice", e.twice.of(payload))
	}
	if e.body == (span{}) {
		e.body = span{start, end}
	}
	return e, ""
}

// members goes through the object at s.i and fills in an envelope if it is one.
func (s *scan) members() (e envelope, problem string) {
	var twice span
	for first := true; ; first = false {
		if first {
			s.i++ // the brace
			if s.space(); s.take('}') {
				return envelope{}, ""
			}
		}
		name := span{from: s.i}
		if problem = s.name(); problem != "" {
			return e, problem
		}
		for name.to = s.i - 1; s.b[name.to-1] != '"'; name.to-- { // back over the colon and space
		}
		s.space()
		value := span{from: s.i}
		if problem = s.value(1); problem != "" {
			return e, problem
		}
		value.to = s.i
		var known *span
		switch text := name.of(s.b); {
		case memberIs(text, "value"):
			known = &e.body
		case memberIs(text, "timestamp"):
			known = &e.timestamp
		case memberIs(text, "quality"):
			known = &e.quality
		case e.other == (span{}):
			e.other = name
		}
		if known != nil {
			if *known != (span{}) {
				twice = name
			}
			*known = value
		}
		s.space()
		if s.take(',') {
			s.space()
			continue
		}
		if !s.take('}') {
			return e, s.unexpected(`"," or "}"`)
		}
		switch {
		case e.body == (span{}):
			return envelope{}, ""
		case e.other != (span{}):
			return envelope{other: e.other}, ""
		}
		e.twice = twice
		return e, ""
	}
}

// memberIs reports whether a member's quoted name is name.
func memberIs(quoted []byte, name string) bool {
	inner := quoted[1 : len(quoted)-1]
	if string(inner) == name {
		return true
	}
	if len(inner) <= len(name) || len(inner) > 6*len(name) {
		return false // too short or too long to be name in escapes
	}
	for _, c := range inner {
		if c == '\\' {
			return unquote(quoted) == name
		}
	}
	return false
}
