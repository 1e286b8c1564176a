package topic

import (
	"strings"
	"testing"
)

// oracle matches as the standard reads: level by level, on split strings.
func oracle(filter, name string) bool {
	if strings.HasPrefix(name, "$") && (strings.HasPrefix(filter, "+") || strings.HasPrefix(filter, "#")) {
		return false
	}
	return oracleLevels(strings.Split(filter, "/"), strings.Split(name, "/"))
}

func oracleLevels(filter, name []string) bool {
	if len(filter) == 0 {
		return len(name) == 0
	}
	if filter[0] == "#" {
		return true
	}
	return len(name) > 0 && (filter[0] == "+" || filter[0] == name[0]) && oracleLevels(filter[1:], name[1:])
}

func TestMatchFollowsTheExamplesOfTheStandard(t *testing.T) {
	cases := []struct {
		filter, name string
		want         bool
	}{
		{"sport/tennis/player1/#", "sport/tennis/player1", true},
		{"sport/tennis/player1/#", "sport/tennis/player1/ranking", true},
		{"sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", true},
		{"sport/tennis/player1/#", "sport/tennis/player10", false},
		{"sport/#", "sport", true},
		{"#", "sport", true},
		{"sport/tennis/+", "sport/tennis/player1", true},
		{"sport/tennis/+", "sport/tennis/player1/ranking", false},
		{"sport/+", "sport", false},
		{"sport/+", "sport/", true},
		{"+/+", "/finance", true},
		{"/+", "/finance", true},
		{"+", "/finance", false},
		{"#", "$SYS/monitor/Clients", false},
		{"+/monitor/Clients", "$SYS/monitor/Clients", false},
		{"$SYS/#", "$SYS/monitor/Clients", true},
		{"$SYS/monitor/+", "$SYS/monitor/Clients", true},
		{"a/#", "a/$x", true},
		{"ACCOUNTS", "Accounts", false},
		{"Accounts payable", "Accounts payable", true},
		{"/finance", "finance", false},
		{"caf\u00e9", "cafe\u0301", false}, // no normalisation [MQTT-4.7.3-4]
	}
	for _, c := range cases {
		if got := Match(c.filter, c.name); got != c.want {
			t.Errorf("Match(%q, %q) = %v, want %v", c.filter, c.name, got, c.want)
		}
	}
}

// enumerate returns every path of up to depth levels.
func enumerate(levels []string, depth int) []string {
	paths := append([]string(nil), levels...)
	last := paths
	for range depth - 1 {
		var next []string
		for _, p := range last {
			for _, l := range levels {
				next = append(next, p+"/"+l)
			}
		}
		paths, last = append(paths, next...), next
	}
	return paths
}

// TestMatchCoversIntersectsAgreeOnEverySmallFilter compares the three with
// their definition over every filter of up to three levels and every name of up
// to four. The names have a level ("c") no filter names and one level more than
// any filter, so that they hold a witness wherever there is one.
func TestMatchCoversIntersectsAgreeOnEverySmallFilter(t *testing.T) {
	var filters, names []string
	for _, f := range enumerate([]string{"a", "b", "", "$a", "+", "#"}, 3) {
		if ValidateFilter(f) == nil {
			filters = append(filters, f)
		}
	}
	for _, n := range enumerate([]string{"a", "b", "c", "", "$a"}, 4) {
		if ValidateName(n) == nil {
			names = append(names, n)
		}
	}
	matches := make([][]uint64, len(filters))
	for i, f := range filters {
		matches[i] = make([]uint64, (len(names)+63)/64)
		for j, n := range names {
			want := oracle(f, n)
			if got := Match(f, n); got != want {
				t.Fatalf("Match(%q, %q) = %v, want %v", f, n, got, want)
			}
			if want {
				matches[i][j/64] |= 1 << (j % 64)
			}
		}
	}
	for i, a := range filters {
		for j, b := range filters {
			covers, intersects := true, false
			for w := range matches[i] {
				covers = covers && matches[j][w]&^matches[i][w] == 0
				intersects = intersects || matches[i][w]&matches[j][w] != 0
			}
			if got := Covers(a, b); got != covers {
				t.Fatalf("Covers(%q, %q) = %v, want %v", a, b, got, covers)
			}
			if got := Intersects(a, b); got != intersects {
				t.Fatalf("Intersects(%q, %q) = %v, want %v", a, b, got, intersects)
			}
		}
	}
	t.Logf("%d filters, %d names", len(filters), len(names))
}

func FuzzFilters(f *testing.F) {
	for _, s := range [][3]string{
		{"a/+/#", "a/b", "a/b/c"}, {"#", "+/#", "$SYS/x"}, {"+/+", "/", "/"}, {"$share/g/a/#", "$share/+/a", "a"},
		{"a#", "a/#/b", "a/+"}, {"\x00", "\xff", ""}, {"é/+", "e\u0301/#", "é/x"},
	} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, a, b, name string) {
		_, aRest, _, _ := ParseShare(a)
		_, bRest, _, _ := ParseShare(b)
		if ValidateFilter(a) != nil || ValidateFilter(b) != nil || ValidateName(name) != nil ||
			ValidateFilter(aRest) != nil || ValidateFilter(bRest) != nil {
			// Not well formed: any answer, but an answer.
			Match(a, name)
			Covers(a, b)
			Intersects(a, b)
			var x Index[int, int]
			x.Set(a, 1, 1)
			x.Match(name, func(int, int) {})
			if _, ok := x.Delete(a, 1); !ok || x.Len() != 0 || !x.root.empty() {
				t.Fatalf("index does not give up %q", a)
			}
			return
		}
		a, b = aRest, bRest
		if strings.Contains(name, "+") || strings.Contains(name, "#") {
			t.Fatalf("name %q has a wildcard", name)
		}
		ma, mb := Match(a, name), Match(b, name)
		if ma != oracle(a, name) {
			t.Fatalf("Match(%q, %q) = %v", a, name, ma)
		}
		if Covers(a, b) && mb && !ma {
			t.Fatalf("%q covers %q, but does not match %q", a, b, name)
		}
		if Covers(a, b) && !Intersects(a, b) {
			t.Fatalf("%q covers %q, but does not intersect it", a, b)
		}
		if ma && mb && !Intersects(a, b) {
			t.Fatalf("%q and %q match %q, but do not intersect", a, b, name)
		}
		if Intersects(a, b) != Intersects(b, a) || !Covers(a, a) {
			t.Fatalf("%q, %q: Intersects is not symmetric or Covers not reflexive", a, b)
		}
		if ma != Covers(a, name) || ma != Intersects(a, name) {
			t.Fatalf("%q, %q: a name is a filter that matches itself alone", a, name)
		}
		var x Index[int, int]
		x.Set(a, 1, 1)
		found := 0
		x.Match(name, func(int, int) { found++ })
		if found == 1 != ma {
			t.Fatalf("index finds %q for %q %d times, Match says %v", a, name, found, ma)
		}
	})
}
