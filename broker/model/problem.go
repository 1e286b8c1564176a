package model

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing wrong with a model file.
type Problem struct {
	// Line in the file, from 1; 0 if it has none.
	Line int
	// Key is the path of the key, such as workspaces[0].bindings[2].schema; empty
	// for the file as a whole.
	Key string
	// Detail names what was found and what is allowed.
	Detail string
}

func (p Problem) String() string {
	var b strings.Builder
	if p.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", p.Line)
	}
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	b.WriteString(p.Detail)
	return b.String()
}

// InvalidError is a model file that is refused, with everything that is wrong
// with it in the order of its lines.
type InvalidError struct {
	Problems []Problem
	// Total is how many problems there are; of very many only the first hundred
	// are listed.
	Total int
}

func (e *InvalidError) Error() string {
	if len(e.Problems) == 1 {
		return "model file is not valid: " + e.Problems[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "model file is not valid, %d problems:", e.Total)
	for _, p := range e.Problems {
		b.WriteString("\n  " + p.String())
	}
	if more := e.Total - len(e.Problems); more > 0 {
		fmt.Fprintf(&b, "\n  and %d more", more)
	}
	return b.String()
}

func invalid(total int, problems []Problem) *InvalidError {
	slices.SortStableFunc(problems, func(a, b Problem) int { return a.Line - b.Line })
	return &InvalidError{Problems: problems, Total: max(total, len(problems))}
}
