package jetstream

import (
	"testing"
	"time"
)

func TestWhenAStreamIsAnotherOne(t *testing.T) {
	type answer struct {
		at    time.Duration
		stamp string
	}
	for name, c := range map[string]struct {
		opened      string
		answers     []answer
		whole, gone bool
	}{
		"itself":                                     {"a", []answer{{0, "a"}, {time.Minute, "a"}}, true, false},
		"another, just now":                          {"a", []answer{{0, "b"}}, false, false},
		"another, for a while":                       {"a", []answer{{0, "b"}, {goneFor - 1, "b"}}, false, false},
		"another, for long":                          {"a", []answer{{0, "b"}, {goneFor, "b"}}, false, true},
		"for good":                                   {"a", []answer{{0, "b"}, {goneFor, "b"}, {time.Minute, "a"}}, false, true},
		"another and another":                        {"a", []answer{{0, "b"}, {goneFor, "c"}}, false, true},
		"a server that was away spoke of an old":     {"a", []answer{{0, "old"}, {1, "a"}, {goneFor, "a"}}, true, false},
		"it did so twice":                            {"a", []answer{{0, "old"}, {1, "a"}, {goneFor, "old"}}, false, false},
		"of an older release":                        {"", []answer{{0, ""}, {goneFor, ""}}, true, false},
		"of an older release, made again":            {"", []answer{{0, "b"}, {goneFor, "b"}}, false, true},
		"its stamp was written over":                 {"a", []answer{{0, ""}, {goneFor, ""}}, true, false},
		"its stamp was written over, and made again": {"a", []answer{{0, ""}, {1, "b"}, {1 + goneFor, "b"}}, false, true},
	} {
		o := &openedStream{name: name, stamp: c.opened}
		begin := time.Now()
		for _, a := range c.answers {
			o.answered(a.stamp, begin.Add(a.at))
		}
		if o.whole() != c.whole || o.gone != c.gone {
			t.Errorf("%s: whole %v, gone %v, want %v, %v", name, o.whole(), o.gone, c.whole, c.gone)
		}
	}
}

// One in doubt is asked at once, and does not keep others from their turn.
func TestWhoIsAskedForItsStamp(t *testing.T) {
	o := &openedStreams{}
	ask := func() string {
		t.Helper()
		name, ok := o.ask()
		if !ok {
			return ""
		}
		if again, ok := o.ask(); ok {
			t.Errorf("%s is asked while %s is", again, name)
		}
		o.asking = false
		return name
	}
	if got := ask(); got != "" {
		t.Errorf("without any stream %s is asked", got)
	}
	for _, name := range []string{"x", "y", "z"} {
		o.add(name, name)
	}
	in := func(want ...string) {
		t.Helper()
		for _, w := range want {
			if got := ask(); got != w {
				t.Errorf("%s is asked, want %s", got, w)
			}
		}
	}
	in("y", "z", "x", "y")
	y := o.all[1]
	y.listed(false, time.Now())
	in("y", "z", "x") // no answer
	y.answered("another", time.Now())
	in("y", "y")
	y.answered("another", time.Now())
	y.answered("y", time.Now())
	in("z", "x")
}
