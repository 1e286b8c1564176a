package model

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// shape is a compiled JSON Schema. It is asked by many goroutines at once.
type shape struct {
	schema *jsonschema.Schema
}

// shapeURL names the one document a schema may refer into: itself.
const shapeURL = "model:///schema"

// noLoader refuses every reference out of the document.
type noLoader struct{}

var errRemote = errors.New("refers to another document, which is not allowed: put it below $defs")

func (noLoader) Load(string) (any, error) { return nil, errRemote }

// defect is one thing wrong with a JSON Schema, and where in it.
type defect struct {
	at     []string
	detail string
}

// compileShape compiles a JSON Schema given as its JSON value, by default of
// draft 2020-12, with formats checked.
func compileShape(doc any) (*shape, []defect) {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(noLoader{})
	if err := c.AddResource(shapeURL, doc); err != nil {
		return nil, []defect{{detail: err.Error()}}
	}
	schema, err := c.Compile(shapeURL)
	if err == nil {
		return &shape{schema}, nil
	}
	var load *jsonschema.LoadURLError
	if errors.As(err, &load) {
		return nil, []defect{{detail: fmt.Sprintf("%q %v", load.URL, load.Err)}}
	}
	var invalid *jsonschema.ValidationError
	if meta := (*jsonschema.SchemaValidationError)(nil); errors.As(err, &meta) && errors.As(meta.Err, &invalid) {
		return nil, defects(invalid)
	}
	return nil, []defect{{detail: strings.ReplaceAll(err.Error(), shapeURL, "")}}
}

// check returns how a JSON value of sound grammar does not fit, "" if it does.
func (s *shape) check(body []byte) string {
	v, problem := instance(body)
	if problem != "" {
		return problem
	}
	err := s.schema.Validate(v)
	if err == nil {
		return ""
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return printable(cut(err.Error(), 256))
	}
	var parts []string
	for i, d := range defects(invalid) {
		if i == 3 {
			parts = append(parts, "and more")
			break
		}
		at := ""
		if len(d.at) > 0 {
			at = "at /" + cut(strings.Join(d.at, "/"), 64) + ": "
		}
		parts = append(parts, at+cut(d.detail, 128))
	}
	return printable(strings.Join(parts, "; "))
}

// printable replaces control characters: names in a payload may have any, a
// reason string must not have U+0000 [MQTT-1.5.4-2].
func printable(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return unicode.ReplacementChar
		}
		return c
	}, s)
}

// defects returns the causes of e that have no causes themselves, in the order
// of where they are: the library's own order differs from call to call.
func defects(e *jsonschema.ValidationError) []defect {
	p := message.NewPrinter(language.English)
	var all []defect
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 {
			all = append(all, defect{e.InstanceLocation, e.ErrorKind.LocalizedString(p)})
		}
		for _, cause := range e.Causes {
			walk(cause)
		}
	}
	walk(e)
	slices.SortFunc(all, func(a, b defect) int {
		return cmp.Or(slices.Compare(a.at, b.at), strings.Compare(a.detail, b.detail))
	})
	return slices.CompactFunc(all, func(a, b defect) bool { return a.detail == b.detail && slices.Equal(a.at, b.at) })
}
