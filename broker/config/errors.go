package config

import (
	"fmt"
	"strconv"
	"strings"
)

// Violation is one thing that is wrong with a configuration.
type Violation struct {
	Line  int    // in the file; 0 = concerns no one line
	Key   string // full key; "" = the file as a whole
	Value string // as given; "" = not of interest
	Want  string // what is accepted, as the rest of the sentence: "must be 5s to 2m"
}

// String is "line 4: modules.uns.brokerMemberTTL (3s) must be 5s to 2m".
func (v Violation) String() string {
	var b strings.Builder
	if v.Line > 0 {
		b.WriteString("line " + strconv.Itoa(v.Line) + ": ")
	}
	b.WriteString(v.Key)
	if v.Key == "" {
		b.WriteString("the file")
	}
	if v.Value != "" {
		b.WriteString(" (" + clip(v.Value) + ")")
	}
	return b.String() + " " + v.Want
}

// clip keeps a value short and on one line.
func clip(s string) string {
	const longest = 80
	if strings.ContainsAny(s, "\n\r\t") {
		s = strconv.Quote(s)
	}
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "…"
	}
	return s
}

// Error is everything that is wrong with a configuration.
type Error struct {
	Violations []Violation
}

func (e *Error) Error() string {
	if len(e.Violations) == 1 {
		return e.Violations[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d settings are wrong:", len(e.Violations))
	for _, v := range e.Violations {
		b.WriteString("\n  " + v.String())
	}
	return b.String()
}
