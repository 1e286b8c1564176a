package model

import (
	"encoding/json"
	"fmt"
)

// MaxDepth is how many objects and arrays a payload may nest in each other.
// Whoever reads the value with a recursive parser is safe.
const MaxDepth = 64

// scan walks over JSON text (RFC 8259) once, checking its grammar. It keeps
// nothing but where it is. Its methods return what is wrong, "" if nothing is;
// after a problem, i is where it was found. That the text is UTF-8 is checked
// elsewhere.
type scan struct {
	b []byte
	i int
}

// space skips the insignificant space before a token.
func (s *scan) space() {
	for s.i < len(s.b) && (s.b[s.i] == ' ' || s.b[s.i] == '\n' || s.b[s.i] == '\t' || s.b[s.i] == '\r') {
		s.i++
	}
}

// take skips c and reports whether it was there.
func (s *scan) take(c byte) bool {
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

// unexpected says what is where something else should be.
func (s *scan) unexpected(want string) string {
	if s.i >= len(s.b) {
		return "ends where " + want + " should be"
	}
	return fmt.Sprintf("has %q where %s should be", s.b[s.i], want)
}

// value skips one value, which lies within level objects and arrays. It does
// not recurse: what is open is a bit each, set for an object.
func (s *scan) value(level int) string {
	var objects uint64
	depth := 0
	for {
		s.space()
		if s.i >= len(s.b) {
			return s.unexpected("a value")
		}
		switch c := s.b[s.i]; c {
		case '{', '[':
			if level+depth >= MaxDepth {
				return fmt.Sprintf("nests deeper than %d levels", MaxDepth)
			}
			s.i++
			s.space()
			if s.take(c + 2) { // '}' is '{'+2, ']' is '['+2
				break
			}
			depth++
			objects <<= 1
			if c == '{' {
				objects |= 1
				if problem := s.name(); problem != "" {
					return problem
				}
			}
			continue
		case '"':
			if problem := s.string(); problem != "" {
				return problem
			}
		case 't':
			if problem := s.word("true"); problem != "" {
				return problem
			}
		case 'f':
			if problem := s.word("false"); problem != "" {
				return problem
			}
		case 'n':
			if problem := s.word("null"); problem != "" {
				return problem
			}
		default:
			if problem := s.number(); problem != "" {
				return problem
			}
		}
		for { // a value ended: so may what it is in
			if depth == 0 {
				return ""
			}
			s.space()
			object := objects&1 == 1
			if s.take(',') {
				if object {
					s.space()
					if problem := s.name(); problem != "" {
						return problem
					}
				}
				break
			}
			if object && !s.take('}') {
				return s.unexpected(`"," or "}"`)
			}
			if !object && !s.take(']') {
				return s.unexpected(`"," or "]"`)
			}
			depth--
			objects >>= 1
		}
	}
}

// name skips a member's name and the colon after it.
func (s *scan) name() string {
	if s.i >= len(s.b) || s.b[s.i] != '"' {
		return s.unexpected("a member's name")
	}
	if problem := s.string(); problem != "" {
		return problem
	}
	s.space()
	if !s.take(':') {
		return s.unexpected(`":"`)
	}
	return ""
}

// plain holds which bytes stand for themselves in a string.
var plain = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= 0x20 && c != '"' && c != '\\'
	}
	return t
}()

// string skips a string, from its opening to behind its closing quote.
func (s *scan) string() string {
	b, i := s.b, s.i+1
	for {
		for i < len(b) && plain[b[i]] {
			i++
		}
		s.i = i
		if i >= len(b) {
			return "ends inside a string"
		}
		switch {
		case b[i] == '"':
			s.i++
			return ""
		case b[i] != '\\':
			return fmt.Sprintf("has the control character %#02x inside a string", b[i])
		case i+1 >= len(b):
			return "ends inside a string"
		}
		switch b[i+1] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			i += 2
		case 'u':
			if i+6 > len(b) || !hex(b[i+2]) || !hex(b[i+3]) || !hex(b[i+4]) || !hex(b[i+5]) {
				return `has \u without four hexadecimal digits inside a string`
			}
			i += 6
		default:
			return fmt.Sprintf("has the unknown escape %q inside a string", b[i:i+2])
		}
	}
}

func hex(c byte) bool { return digit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }

func digit(c byte) bool { return '0' <= c && c <= '9' }

// word skips true, false or null.
func (s *scan) word(w string) string {
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		return s.unexpected("a value")
	}
	s.i += len(w)
	return ""
}

// number skips a number: -? (0 | 1-9 digits) (. digits)? ([eE] [+-]? digits)?
func (s *scan) number() string {
	start := s.i
	s.take('-')
	switch {
	case s.take('0'):
	case s.digits():
	case s.i == start:
		return s.unexpected("a value")
	default:
		return s.unexpected("a digit")
	}
	if s.take('.') && !s.digits() {
		return s.unexpected("a digit")
	}
	if s.take('e') || s.take('E') {
		if !s.take('+') {
			s.take('-')
		}
		if !s.digits() {
			return s.unexpected("a digit")
		}
	}
	return ""
}

// digits skips digits and reports whether there was one.
func (s *scan) digits() bool {
	start := s.i
	for s.i < len(s.b) && digit(s.b[s.i]) {
		s.i++
	}
	return s.i > start
}

// unquote returns what a JSON string of sound grammar stands for.
func unquote(quoted []byte) string {
	inner := quoted[1 : len(quoted)-1]
	for _, c := range inner {
		if c == '\\' {
			var text string
			if err := json.Unmarshal(quoted, &text); err != nil {
				return string(inner)
			}
			return text
		}
	}
	return string(inner)
}
