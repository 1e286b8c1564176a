package topic

import (
	"strings"
	"testing"
)

func TestNamesAndFiltersAreRefusedWithTheirRule(t *testing.T) {
	long := strings.Repeat("a", MaxBytes+1)
	cases := []struct {
		s            string
		name, filter string // part of the error, "" for none
	}{
		{"a", "", ""},
		{"/", "", ""},
		{"a//b/", "", ""},
		{"$SYS/x", "", ""},
		{"Accounts payable/€", "", ""},
		{long[1:], "", ""},
		{"", "[MQTT-4.7.3-1]", "[MQTT-4.7.3-1]"},
		{long, "[MQTT-4.7.3-3]", "[MQTT-4.7.3-3]"},
		{"a\x00b", "U+0000 at byte 1 [MQTT-4.7.3-2]", "[MQTT-4.7.3-2]"},
		{"a\xffb", "[MQTT-1.5.4-1]", "[MQTT-1.5.4-1]"},
		{"a\xed\xa0\x80b", "[MQTT-1.5.4-1]", "[MQTT-1.5.4-1]"},
		{"#", "[MQTT-4.7.0-1]", ""},
		{"a/#", "[MQTT-4.7.0-1]", ""},
		{"+", "[MQTT-4.7.0-1]", ""},
		{"+/a/+/#", "[MQTT-4.7.0-1]", ""},
		{"a#", "[MQTT-4.7.0-1]", "[MQTT-4.7.1-1]"},
		{"#a", "[MQTT-4.7.0-1]", "[MQTT-4.7.1-1]"},
		{"a/#/b", "[MQTT-4.7.0-1]", "[MQTT-4.7.1-1]"},
		{"#/", "[MQTT-4.7.0-1]", "[MQTT-4.7.1-1]"},
		{"a+", "[MQTT-4.7.0-1]", "[MQTT-4.7.1-2]"},
		{"+a/b", "[MQTT-4.7.0-1]", "[MQTT-4.7.1-2]"},
		{"a/++/b", "[MQTT-4.7.0-1]", "[MQTT-4.7.1-2]"},
		{"+#", "[MQTT-4.7.0-1]", "[MQTT-4.7.1-2]"},
		{"$share/g/a/+", "[MQTT-4.7.0-1]", ""},
		{"$share", "", ""},
		{"$share/", "", "[MQTT-4.8.2-1]"},
		{"$share//a", "", "[MQTT-4.8.2-1]"},
		{"$share/g", "", "[MQTT-4.8.2-2]"},
		{"$share/g/", "", "[MQTT-4.8.2-2]"},
		{"$share/g+/a", "[MQTT-4.7.0-1]", "[MQTT-4.8.2-2]"},
		{"$share/#/a", "[MQTT-4.7.0-1]", "[MQTT-4.8.2-2]"},
		{"$share/g/a#", "[MQTT-4.7.0-1]", "[MQTT-4.7.1-1]"},
		{"$share/g/" + long[10:], "", ""},
		{"$share/g/" + long[9:], "[MQTT-4.7.3-3]", "[MQTT-4.7.3-3]"},
	}
	check := func(what, s string, err error, want string) {
		t.Helper()
		switch {
		case want == "" && err != nil:
			t.Errorf("%s %s is refused: %v", what, quote(s), err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s %s: error %v, want one with %s", what, quote(s), err, want)
		case err != nil && len(err.Error()) > 400:
			t.Errorf("%s %s: error of %d bytes", what, quote(s), len(err.Error()))
		}
	}
	for _, c := range cases {
		check("name", c.s, ValidateName(c.s), c.name)
		check("filter", c.s, ValidateFilter(c.s), c.filter)
	}
}

func TestShareFiltersComeApart(t *testing.T) {
	cases := []struct {
		filter, share, rest string
		shared              bool
	}{
		{"$share/g/a/+/#", "g", "a/+/#", true},
		{"$share/g//", "g", "/", true},
		{"$share/g/$share/h/a", "g", "$share/h/a", true},
		{"$share", "", "$share", false},
		{"$Share/g/a", "", "$Share/g/a", false},
		{"$shared/g/a", "", "$shared/g/a", false},
		{"a/$share/g", "", "a/$share/g", false},
	}
	for _, c := range cases {
		share, rest, shared, err := ParseShare(c.filter)
		if err != nil || share != c.share || rest != c.rest || shared != c.shared {
			t.Errorf("ParseShare(%q) = %q, %q, %v, %v; want %q, %q, %v", c.filter, share, rest, shared, err, c.share, c.rest, c.shared)
		}
	}
}

func TestEmptyLevelsCount(t *testing.T) {
	for s, want := range map[string]int{"a": 1, "/": 2, "a//b": 3, "+/#": 2, "/a/": 3} {
		if got := Levels(s); got != want {
			t.Errorf("Levels(%q) = %d, want %d", s, got, want)
		}
	}
}

func BenchmarkValidateName(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if err := ValidateName("mHv1.0/plant/_ingress/press-7/line/1/temperature"); err != nil {
			b.Fatal(err)
		}
	}
}
