package access

import (
	"strings"

	"maestrohub.io/uns/broker/topic"
)

// below is a placeholder level put before filters on the part below a workspace,
// so that a "$" at their beginning means nothing special ([MQTT-4.7.2-1] is about
// whole names).
const below = "w/"

// filters is a compiled list of filters on the part of a name below its
// workspace.
type filters struct {
	all   bool                // "#" is among them
	exact map[string]struct{} // those without wildcards
	// begins are the other ones by their first level, wild those whose first
	// level is a wildcard.
	begins map[string][]string
	wild   []string
	// prefixed are all of them behind the placeholder level.
	prefixed []string
}

func (f *filters) add(filter string) {
	f.prefixed = append(f.prefixed, below+filter)
	switch {
	case filter == "#":
		f.all = true
	case filter[0] == '+' || filter[0] == '#':
		f.wild = append(f.wild, filter)
	case strings.ContainsAny(filter, "+#"):
		if f.begins == nil {
			f.begins = map[string][]string{}
		}
		level, _, _ := firstLevel(filter)
		f.begins[level] = append(f.begins[level], filter)
	default:
		if f.exact == nil {
			f.exact = map[string]struct{}{}
		}
		f.exact[filter] = struct{}{}
	}
}

// match says whether one of the filters matches the topic.
func (f *filters) match(rest string) bool {
	if f.all {
		return true
	}
	if _, ok := f.exact[rest]; ok {
		return true
	}
	if f.begins != nil {
		level, _, _ := firstLevel(rest)
		if matchAny(f.begins[level], rest) {
			return true
		}
	}
	return matchAny(f.wild, rest)
}

func matchAny(filters []string, rest string) bool {
	for _, filter := range filters {
		if topic.MatchBelow(filter, rest) {
			return true
		}
	}
	return false
}

// covers says whether one of the filters matches whatever the given one does.
func (f *filters) covers(filter string) bool {
	if f.all {
		return true
	}
	for _, p := range f.prefixed {
		if topic.Covers(p, below+filter) {
			return true
		}
	}
	return false
}

// intersects says whether the given filter and one of these have a topic in
// common.
func (f *filters) intersects(filter string) bool {
	for _, p := range f.prefixed {
		if topic.Intersects(p, below+filter) {
			return true
		}
	}
	return false
}

// belowWorkspace returns what a filter on full names leaves of the part below
// one workspace; ok=false: it matches nothing there.
func belowWorkspace(filter, version, workspace string) (rest string, ok bool) {
	for _, want := range []string{version, workspace} {
		level, after, more := strings.Cut(filter, "/")
		if level == "#" {
			return "#", true
		}
		if level != "+" && level != want || !more || after == "" {
			return "", false
		}
		filter = after
	}
	return filter, true
}

// firstLevel returns the first level of a name or filter and what follows it.
func firstLevel(s string) (level, rest string, more bool) { return strings.Cut(s, "/") }
