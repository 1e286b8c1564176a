package config

import (
	"reflect"
	"strings"
	"testing"
)

func TestEveryFieldHasOneRow(t *testing.T) {
	c := Default()
	rows := make(map[any]string)
	for _, s := range settings() {
		if other, twice := rows[s.field(c)]; twice {
			t.Errorf("%s and %s fill the same field", s.key, other)
		}
		rows[s.field(c)] = s.key
	}
	var walk func(v reflect.Value, path string)
	walk = func(v reflect.Value, path string) {
		if v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[Secret]() {
			for i := range v.NumField() {
				walk(v.Field(i), path+"."+v.Type().Field(i).Name)
			}
			return
		}
		if _, ok := rows[v.Addr().Interface()]; !ok {
			t.Errorf("no row fills Config%s", path)
		}
		delete(rows, v.Addr().Interface())
	}
	walk(reflect.ValueOf(c).Elem(), "")
	for _, key := range rows {
		t.Errorf("%s fills no field of its own", key)
	}
}

func TestKeysAreUniqueAndDocumented(t *testing.T) {
	seen := make(map[string]bool)
	check := func(key, doc, allowed string) {
		if seen[key] {
			t.Errorf("%s is there twice", key)
		}
		seen[key] = true
		if doc == "" || !strings.HasSuffix(doc, ".") {
			t.Errorf("%s: its meaning is not a sentence: %q", key, doc)
		}
		if allowed == "" {
			t.Errorf("%s: says not what is accepted", key)
		}
	}
	for _, s := range settings() {
		check(s.key, s.doc, s.allowed)
		for _, e := range s.rows {
			check(s.key+"[]."+e.key, e.doc, e.allowed)
		}
	}
}

// A default is written so that it is accepted when an operator copies it from the reference.
func TestEveryDefaultIsAccepted(t *testing.T) {
	for _, s := range settings() {
		if s.secret || s.key == "embeddedBroker.webSocket.allowedOrigins" {
			continue
		}
		value := s.initial
		if value == "" || strings.HasPrefix(value, ":") {
			value = `"` + value + `"`
		}
		got, err := Parse([]byte(nest(root+"."+s.key, value)))
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		want := Default()
		if g, w := reflect.ValueOf(s.field(got)).Elem(), reflect.ValueOf(s.field(want)).Elem(); g.Kind() != reflect.Slice && !g.Equal(w) {
			t.Errorf("%s: %s reads as %v, not %v", s.key, s.initial, g, w)
		}
	}
}

// Each range's own ends are accepted, and what lies just outside is refused naming the key and the range.
func TestRangesHoldAtTheirEnds(t *testing.T) {
	ranges := 0
	for _, s := range settings() {
		low, high, ok := strings.Cut(s.allowed, " to ")
		if !ok || s.unit == "" {
			continue
		}
		high, _, _ = strings.Cut(high, ",")
		ranges++
		for _, end := range []string{low, high} {
			c, r := Default(), &reader{}
			section(r, settings(), c, r.document([]byte(nest(root+"."+s.key, end))), "", root)
			for _, v := range r.violations {
				t.Errorf("%s: its own end %s: %v", s.key, end, v)
			}
		}
		for _, beyond := range []string{"-1", "-1s", "99999999999999", "9999999h"} {
			_, err := Parse([]byte(nest(root+"."+s.key, beyond)))
			if err == nil {
				t.Errorf("%s accepts %s", s.key, beyond)
			} else if !strings.Contains(err.Error(), root+"."+s.key+" (") || !strings.Contains(err.Error(), low+" to "+high) {
				t.Errorf("%s: the message names not its key and range: %v", s.key, err)
			}
		}
	}
	if ranges < 30 {
		t.Errorf("found only %d ranges", ranges)
	}
}

// nest is a file that sets one key.
func nest(key, value string) string {
	levels := strings.Split(key, ".")
	return strings.Join(levels, ": {") + ": " + value + strings.Repeat("}", len(levels)-1)
}
