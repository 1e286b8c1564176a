package main

import (
	"fmt"
	"slices"
	"strings"
)

// mostAgain is how many failures run again at most: more than a few are no accident of a
// busy machine.
const mostAgain = 4

// again runs the failed tests once more, each top-level test by itself, by the given
// function, which returns a finished report. One that passes then is unsteady: it is
// listed as such and counted as passed. A data race, a panic, a build and a package that
// died outside its tests stay failures, whatever a second run says.
func (r *report) again(run func(pkg, test string) *report) {
	if len(r.failures) > mostAgain {
		return
	}
	passes := map[string]bool{}
	var stay []failure
	for _, f := range r.failures {
		top, _, _ := strings.Cut(f.test, "/")
		if top == "" || strings.Contains(f.text, "DATA RACE") || strings.Contains(f.text, "panic:") {
			stay = append(stay, f)
			continue
		}
		key := f.pkg + " " + top
		if _, ran := passes[key]; !ran {
			fmt.Fprintf(r.out, "again: %s\n", key)
			second := run(f.pkg, top)
			passes[key] = second.failed() == 0 && second.passed > 0
		}
		if passes[key] {
			r.unsteady = append(r.unsteady, f)
			r.passed++
		} else {
			stay = append(stay, f)
		}
	}
	r.failures = stay
}

// alone makes of the arguments of a run of many packages those of one of its tests.
// Only what follows -args is passed on unread.
func alone(args []string, pkg, test string) []string {
	rest := len(args)
	if i := slices.Index(args, "-args"); i >= 0 {
		rest = i
	}
	var one []string
	for _, a := range args[:rest] {
		if a != "." && !strings.HasPrefix(a, "./") && !strings.HasPrefix(a, "maestrohub.io/") {
			one = append(one, a)
		}
	}
	one = append(one, "-count=1", "-run", "^"+test+"$", pkg)
	return append(one, args[rest:]...)
}
