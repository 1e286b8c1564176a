package jetstream

import (
	"strings"
	"testing"

	"maestrohub.io/uns/broker/state"
)

func FuzzKeys(f *testing.F) {
	for _, key := range []string{"a", "a/b", "/", "//a//", "a b", "*", ">", "a.b", "%", "%41", "%long/x", "ünïcödé/温度", "$SYS", "\xff", strings.Repeat("x", 5000), strings.Repeat("/", 3000)} {
		f.Add(key, 1)
	}
	f.Fuzz(func(t *testing.T, key string, cut int) {
		if state.CheckKey(key) != nil {
			return
		}
		tokens, long := encodeKey(key)
		if len(tokens) > maxKeySubject {
			t.Fatalf("key of %d bytes has a subject of %d", len(key), len(tokens))
		}
		for _, token := range strings.Split(tokens, ".") {
			if token == "" || strings.ContainsAny(token, " \t\r\n*>") {
				t.Fatalf("key %q has the subject %q, token %q", key, tokens, token)
			}
		}
		if !long {
			if back, err := decodeKey(tokens); err != nil || back != key {
				t.Fatalf("key %q came back as %q, error %v", key, back, err)
			}
		}
		// Whatever a prefix of it is asked for, its filters match.
		prefix := key[:min(max(cut, 0), len(key))]
		matched := false
		for _, filter := range prefixFilters("b.", prefix) {
			matched = matched || matches(filter, "b."+tokens)
		}
		if !matched {
			t.Fatalf("key %q is not matched by the filters %q of its prefix %q", key, prefixFilters("b.", prefix), prefix)
		}
	})
}

// matches is NATS's rule for filters.
func matches(filter, subject string) bool {
	f, s := strings.Split(filter, "."), strings.Split(subject, ".")
	for i := range f {
		switch {
		case f[i] == ">":
			return len(s) > i
		case i >= len(s) || f[i] != "*" && f[i] != s[i]:
			return false
		}
	}
	return len(f) == len(s)
}

func TestSubjectsAreWhatTheCommandLineShows(t *testing.T) {
	for key, want := range map[string]string{
		"uns-0": "uns-0", "site/line 1/temp": "site.line%201.temp", "/": "%.%", "a//b": "a.%.b", "a.b": "a%2Eb", "*": "%2A", "50%": "50%25", "温度": "温度",
		"\xff": "%FF",
	} {
		if got, _ := encodeKey(key); got != want {
			t.Errorf("key %q has the subject %q, want %q", key, got, want)
		}
	}
	for _, tokens := range []string{"%4", "a.%G0", "%00", "b.%4"} {
		if key, err := decodeKey(tokens); err == nil {
			t.Errorf("subject %q was taken for the key %q", tokens, key)
		}
	}
}
