package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// instance returns a JSON value of sound grammar as the JSON Schema library
// takes it. Unlike encoding/json it refuses a member that is there twice, of
// which the schema would see one and a subscriber perhaps the other.
func instance(body []byte) (v any, problem string) {
	d := decoder{scan{b: body}}
	return d.value()
}

// decoder builds values. It recurses, as deep as open let the payload nest.
type decoder struct{ scan }

func (d *decoder) value() (any, string) {
	d.space()
	start := d.i
	switch d.b[d.i] {
	case '{':
		return d.object()
	case '[':
		d.i++
		list := []any{}
		for d.space(); !d.take(']'); d.space() {
			element, problem := d.value()
			if problem != "" {
				return nil, problem
			}
			list = append(list, element)
			d.space()
			d.take(',')
		}
		return list, ""
	case '"':
		d.string()
		return unquote(d.b[start:d.i]), ""
	case 't':
		d.i += len("true")
		return true, ""
	case 'f':
		d.i += len("false")
		return false, ""
	case 'n':
		d.i += len("null")
		return nil, ""
	}
	d.number()
	return number(d.b[start:d.i])
}

func (d *decoder) object() (any, string) {
	d.i++
	members := map[string]any{}
	for d.space(); !d.take('}'); d.space() {
		start := d.i
		d.string()
		name := unquote(d.b[start:d.i])
		d.space()
		d.take(':')
		if _, twice := members[name]; twice {
			return nil, fmt.Sprintf("member %s is there twice", excerpt([]byte(strconv.Quote(name))))
		}
		member, problem := d.value()
		if problem != "" {
			return nil, problem
		}
		members[name] = member
		d.space()
		d.take(',')
	}
	return members, ""
}

// number returns a number that is safe to compute with as a fraction of big
// integers, as the library does: 1e1000000000 would be a gigabyte. Short plain
// decimals stay exact, all else is rounded to a float.
func number(text []byte) (any, string) {
	const exact = 40
	if len(text) <= exact && !bytes.ContainsAny(text, "eE") {
		return json.Number(text), ""
	}
	f, ok := parseNumber(text)
	if !ok {
		return nil, fmt.Sprintf("number %s is beyond the range of a 64-bit float", excerpt(text))
	}
	return f, ""
}
