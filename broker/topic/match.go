package topic

import "strings"

// Match reports whether filter matches name. Filter is without "$share/<name>/".
func Match(filter, name string) bool {
	if name != "" && name[0] == '$' && startsWild(filter) {
		return false // [MQTT-4.7.2-1]
	}
	return MatchBelow(filter, name)
}

// MatchBelow is Match for the end of a longer name, such as a topic below its
// workspace: there a level that begins with "$" is like any other.
func MatchBelow(filter, name string) bool {
	for {
		want, filterRest, filterMore := strings.Cut(filter, "/")
		if want == "#" {
			return true
		}
		level, nameRest, nameMore := strings.Cut(name, "/")
		if want != "+" && want != level {
			return false
		}
		if !nameMore {
			// "a/#" matches its parent "a" too (4.7.1.2).
			return !filterMore || filterRest == "#"
		}
		if !filterMore {
			return false
		}
		filter, name = filterRest, nameRest
	}
}

// Covers reports whether outer matches every name that inner matches. Both are
// filters or names. The answer is exact: a false has a name that inner matches
// and outer does not.
func Covers(outer, inner string) bool {
	if inner != "" && inner[0] == '$' && startsWild(outer) {
		return false // [MQTT-4.7.2-1]
	}
	if outer == "+/#" {
		// Every name has a level: the same as "#", where "a/+/#" is less than "a/#".
		return true
	}
	inner = withoutParent(inner)
	for {
		have, outerRest, outerMore := strings.Cut(outer, "/")
		if have == "#" {
			return true
		}
		want, innerRest, innerMore := strings.Cut(inner, "/")
		if want == "#" || have != "+" && have != want {
			return false
		}
		if !innerMore {
			return !outerMore || outerRest == "#"
		}
		if !outerMore {
			return false
		}
		outer, inner = outerRest, innerRest
	}
}

// Intersects reports whether some name matches both a and b. The answer is
// exact, apart from the limit of 65,535 bytes: two filters of nearly that length
// may intersect in longer names only.
func Intersects(a, b string) bool {
	if a != "" && a[0] == '$' && startsWild(b) || b != "" && b[0] == '$' && startsWild(a) {
		return false // [MQTT-4.7.2-1]
	}
	a, b = withoutParent(a), withoutParent(b)
	for {
		x, aRest, aMore := strings.Cut(a, "/")
		y, bRest, bMore := strings.Cut(b, "/")
		switch {
		case x == "#" || y == "#":
			return true
		case x != "+" && y != "+" && x != y:
			return false
		case !aMore:
			return !bMore || bRest == "#"
		case !bMore:
			return aRest == "#"
		}
		a, b = aRest, bRest
	}
}

// withoutParent replaces "/#" by the filter that matches the same names without
// a wildcard for the parent level: its parent would be the empty name, which is
// none [MQTT-4.7.3-1].
func withoutParent(filter string) string {
	if filter == "/#" {
		return "/+/#"
	}
	return filter
}

func startsWild(filter string) bool {
	return filter != "" && (filter[0] == '+' || filter[0] == '#')
}
