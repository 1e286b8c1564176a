package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// checkStrictly refuses what encoding/json lets pass or repairs on its way into v, a
// pointer to what the body is to become: bytes that are not UTF-8 and halves of
// surrogate pairs (replaced by U+FFFD), members that differ from v's in upper and
// lower case, and members given twice (the last one counts). Inside a
// json.RawMessage only the encoding is looked at: it is a value, as a device may
// send it. JSON that does not parse is left to the decoder to describe.
func checkStrictly(data []byte, v any) error {
	if !utf8.Valid(data) {
		return errors.New("not UTF-8")
	}
	c := strictness{data: data, d: json.NewDecoder(bytes.NewReader(data))}
	err := c.value(reflect.TypeOf(v), "")
	var wrong *notStrict
	if errors.As(err, &wrong) {
		return wrong
	}
	return nil
}

// notStrict tells what was found from what the decoder could not read.
type notStrict struct{ text string }

func (e *notStrict) Error() string { return e.text }

func strictly(format string, args ...any) error { return &notStrict{fmt.Sprintf(format, args...)} }

type strictness struct {
	data []byte
	d    *json.Decoder
}

var rawMessage = reflect.TypeFor[json.RawMessage]()

// value goes through the next value of the body, which is to become a t; path names
// it in an error. A value of another shape is skipped: the decoder refuses it.
func (c *strictness) value(t reflect.Type, path string) error {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	next := c.next()
	switch {
	case t == nil || t == rawMessage:
	case next == '{' && t.Kind() == reflect.Struct:
		return c.object(t, path)
	case next == '[' && t.Kind() == reflect.Slice:
		return c.array(t, path)
	case next == '"' && t.Kind() == reflect.String:
		_, err := c.text(path)
		return err
	}
	var skipped json.RawMessage
	return c.d.Decode(&skipped)
}

// next is the first byte of the next value, 0 at the end.
func (c *strictness) next() byte {
	rest := bytes.TrimLeft(c.data[c.d.InputOffset():], " \t\r\n:,")
	if len(rest) == 0 {
		return 0
	}
	return rest[0]
}

func (c *strictness) object(t reflect.Type, path string) error {
	if _, err := c.d.Token(); err != nil {
		return err
	}
	members := make(map[string]reflect.Type, t.NumField())
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		members[name] = t.Field(i).Type
	}
	given := make(map[string]bool, len(members))
	for c.d.More() {
		name, err := c.text(path)
		if err != nil {
			return err
		}
		member, known := members[name]
		switch {
		case !known:
			return strictly("unknown member %q", join(path, name))
		case given[name]:
			return strictly("member %q is given twice", join(path, name))
		}
		given[name] = true
		if err := c.value(member, join(path, name)); err != nil {
			return err
		}
	}
	_, err := c.d.Token()
	return err
}

func (c *strictness) array(t reflect.Type, path string) error {
	if _, err := c.d.Token(); err != nil {
		return err
	}
	for n := 0; c.d.More(); n++ {
		if err := c.value(t.Elem(), path+"["+strconv.Itoa(n)+"]"); err != nil {
			return err
		}
	}
	_, err := c.d.Token()
	return err
}

// text reads a string or a member's name.
func (c *strictness) text(path string) (string, error) {
	from := c.d.InputOffset()
	token, err := c.d.Token()
	if err != nil {
		return "", err
	}
	text, ok := token.(string)
	if !ok {
		return "", errors.New("not a string")
	}
	if halfPair(c.data[from:c.d.InputOffset()]) {
		return "", strictly("%q holds half of a surrogate pair", join(path, text))
	}
	return text, nil
}

// halfPair reports whether a string, as it is written, escapes one half of a
// surrogate pair without the other.
func halfPair(written []byte) bool {
	escaped := func(at int) rune {
		if at+6 > len(written) || written[at] != '\\' || written[at+1] != 'u' {
			return -1
		}
		n, err := strconv.ParseUint(string(written[at+2:at+6]), 16, 16)
		if err != nil {
			return -1
		}
		return rune(n)
	}
	for at := 0; at < len(written); at++ {
		if written[at] != '\\' {
			continue
		}
		if r := escaped(at); utf16.IsSurrogate(r) {
			if utf16.DecodeRune(r, escaped(at+6)) == utf8.RuneError {
				return true
			}
			at += 6
		}
		at++ // what is escaped
	}
	return false
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
