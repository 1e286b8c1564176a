package access

import (
	"fmt"
	"strings"
	"testing"

	"maestrohub.io/uns/broker/topic"
)

func grantsOf(publish, subscribe []string) *Grants {
	c := Client{ID: "me", Workspace: "ws", Publish: publish, Subscribe: subscribe}
	c.complete()
	return &Grants{rights: newRights(&c, topic.Grammar{})}
}

func TestReadGrants(t *testing.T) {
	const none, some, all = 0, 1, 2
	cases := []struct {
		grants []string
		read   []string // names that may be read
		not    []string // names that may not
		filter map[string]int
	}{
		{nil,
			[]string{"mHv1.0/ws/a", "mHv1.0/ws/a/b", "mHv1.0/ws/_alerts/a", "mHv1.0/ws/_errors/me", "mHv1.0/ws/$x", "mHv1.0/ws/_own"},
			[]string{"mHv1.0/other/a", "mHv1.0/ws", "mHv2/ws/a", "mHv1.0/wsx/a", "mHv1.0/ws/_errors/you", "mHv1.0/ws/_errors/me/x", "mHv1.0/ws/_errors", "mHv1.0/ws/_ingress/me/a", "mHv1.0/ws/_alerts", "a", ""},
			map[string]int{"mHv1.0/ws/a": all, "mHv1.0/ws/a/#": all, "mHv1.0/ws/#": some, "#": some, "+/+/+": some, "mHv1.0/ws/+/a": some,
				"mHv1.0/other/#": none, "mHv1.0/ws/_ingress/#": none, "mHv1.0/ws/_errors/me": all, "mHv1.0/ws/_errors/you": none, "mHv1.0/ws/_errors/+": some,
				"mHv1.0/ws/_alerts/#": all, "mHv1.0/ws/_alerts": none, "x/#": none, "+/ws/a": some, "mHv1.0/+/a": some, "mHv1.0/#": some, "mHv1.0": none, "mHv1.0/ws": none, "$SYS/#": none}},
		{[]string{},
			[]string{"mHv1.0/ws/_errors/me"},
			[]string{"mHv1.0/ws/a", "mHv1.0/ws/_alerts/a", "mHv1.0/other/_errors/me"},
			map[string]int{"mHv1.0/ws/#": some, "mHv1.0/ws/a": none, "mHv1.0/ws/_errors/me": all, "mHv1.0/ws/+": none, "mHv1.0/ws/+/me": some, "mHv1.0/ws/_alerts/#": none}},
		{[]string{"line1/#"}, // below the workspace
			[]string{"mHv1.0/ws/line1", "mHv1.0/ws/line1/t", "mHv1.0/ws/_alerts/line1/t"},
			[]string{"mHv1.0/ws/line2", "mHv1.0/ws/_alerts/line2", "mHv1.0/other/line1", "mHv1.0/ws/line1x"},
			map[string]int{"mHv1.0/ws/line1/#": all, "mHv1.0/ws/line1/+": all, "mHv1.0/ws/+/t": some, "mHv1.0/ws/line2/#": none, "mHv1.0/ws/#": some, "mHv1.0/ws/_alerts/line1/#": all, "mHv1.0/ws/_alerts/#": some, "mHv1.0/ws/_alerts/line2": none}},
		{[]string{"mHv1.0/ws/line1/+"}, // a full name
			[]string{"mHv1.0/ws/line1/t", "mHv1.0/ws/mHv1.0/ws/line1/t"},
			[]string{"mHv1.0/ws/line1", "mHv1.0/ws/line1/t/u"},
			map[string]int{"mHv1.0/ws/line1/+": all, "mHv1.0/ws/line1/t": all, "mHv1.0/ws/line1/#": some}},
		{[]string{"+/+/a"}, // full or below
			[]string{"mHv1.0/ws/a", "mHv1.0/ws/x/y/a"},
			[]string{"mHv1.0/other/a", "mHv1.0/ws/x/a", "mHv1.0/ws/_errors/you", "mHv1.0/ws/_ingress/x/a"},
			map[string]int{"mHv1.0/ws/a": all}},
		{[]string{"mHv1.0/other/#", "mHv1.0/+"}, // reach beyond the own workspace: nothing of this one
			nil, []string{"mHv1.0/ws/a", "mHv1.0/other/a", "mHv1.0/ws/_alerts/a"},
			map[string]int{"mHv1.0/other/#": none, "mHv1.0/ws/a/b": none}},
		{[]string{"mHv1.0/#"}, []string{"mHv1.0/ws/a/b"}, []string{"mHv1.0/other/a"}, map[string]int{"mHv1.0/ws/a/b": all}},
		{[]string{"_alerts/#", "_errors/#", "_ingress/#"}, // alerts alone; the others give nothing
			[]string{"mHv1.0/ws/_alerts/a/b", "mHv1.0/ws/_errors/me"},
			[]string{"mHv1.0/ws/a/b", "mHv1.0/ws/_errors/you", "mHv1.0/ws/_ingress/me/a"},
			map[string]int{"mHv1.0/ws/_alerts/#": all, "mHv1.0/ws/a": none, "mHv1.0/ws/_errors/you": none, "mHv1.0/ws/+/a": some}},
		{[]string{"$x/#"}, []string{"mHv1.0/ws/$x/a"}, []string{"mHv1.0/ws/x/a"}, map[string]int{"mHv1.0/ws/$x/#": all, "mHv1.0/ws/+/a": some}},
	}
	for _, c := range cases {
		g := grantsOf(nil, c.grants)
		for _, name := range c.read {
			if !g.MayRead(name) {
				t.Errorf("grants %q: %q may not be read", c.grants, name)
			}
		}
		for _, name := range c.not {
			if g.MayRead(name) {
				t.Errorf("grants %q: %q may be read", c.grants, name)
			}
		}
		for filter, want := range c.filter {
			if got := g.ReadsAny(filter); got != (want != none) {
				t.Errorf("grants %q: ReadsAny(%q) = %v", c.grants, filter, got)
			}
			if got := g.ReadsAll(filter); got != (want == all) {
				t.Errorf("grants %q: ReadsAll(%q) = %v", c.grants, filter, got)
			}
		}
	}
}

func TestPublishGrants(t *testing.T) {
	g := grantsOf([]string{"a/b", "line/+/t", "x/#"}, nil)
	for name, want := range map[string]bool{"a/b": true, "a/b/c": false, "a": false, "line/1/t": true, "line/t": false, "x": true, "x/y/z": true, "y": false} {
		if g.MayPublish(name) != want {
			t.Errorf("MayPublish(%q) = %v", name, !want)
		}
	}
	if all := grantsOf(nil, nil); !all.MayPublish("any/thing") || !all.MayPublish("$x") {
		t.Error("absent publish grants do not mean everything")
	}
	if nothing := grantsOf([]string{}, nil); nothing.MayPublish("any") {
		t.Error("an empty list grants something")
	}
	if g := GrantsFor("c", "w"); !g.MayPublish("a") || !g.MayRead("mHv1.0/w/a") || g.Scope(ScopeRead) || !g.Deadline().IsZero() {
		t.Error("GrantsFor is not everything of the workspace and no scope")
	}
}

func TestMatchingGrantsAllocatesNothing(t *testing.T) {
	g := grantsOf([]string{"a/b", "line/+/t", "x/#"}, []string{"a/b", "line/+/t", "x/#"})
	n := testing.AllocsPerRun(100, func() {
		g.MayPublish("line/7/t")
		g.MayPublish("y/z")
		g.MayRead("mHv1.0/ws/line/7/t")
		g.MayRead("mHv1.0/ws/_alerts/line/7/t")
		g.MayRead("mHv1.0/ws/_errors/me")
		g.MayRead("mHv1.0/other/x")
	})
	if n != 0 {
		t.Fatalf("matching makes %v allocations", n)
	}
}

// FuzzGrants holds the three answers to each other: what a covered filter matches
// may be read, and what may be read is not denied to any filter that matches it.
func FuzzGrants(f *testing.F) {
	f.Add("#", "mHv1.0/ws/+/a", "mHv1.0/ws/_errors/you")
	f.Add("+/a", "+/ws/#", "mHv1.0/ws/_alerts/a")
	f.Add("_alerts/+", "mHv1.0/ws/_alerts/#", "mHv1.0/ws/_alerts/x/y")
	f.Add("mHv1.0/+/a/#", "mHv1.0/ws/a/#", "mHv1.0/ws/a")
	f.Add("mHv1.0/ws/", "+/ws/", "mHv1.0/ws/a")
	f.Fuzz(func(t *testing.T, grant, filter, name string) {
		if topic.ValidateFilter(grant) != nil || topic.ValidateFilter(filter) != nil || topic.ValidateName(name) != nil {
			return
		}
		g := grantsOf(nil, []string{grant})
		// _ingress names are never delivered; every other name is.
		if _, rest, ok := (topic.Grammar{}).Workspace(name); !ok || rest == "" {
			return
		}
		if !topic.Match(filter, name) {
			return
		}
		may := g.MayRead(name)
		if g.ReadsAll(filter) && !may {
			t.Errorf("grant %q covers %q, which matches %q, which may not be read", grant, filter, name)
		}
		if may && !g.ReadsAny(filter) {
			t.Errorf("grant %q lets %q be read, but nothing of %q, which matches it", grant, name, filter)
		}
	})
}

func BenchmarkMayRead(b *testing.B) {
	for name, grants := range map[string][]string{"all": nil, "eight": {"a", "b/+", "c/#", "d/+/x", "e", "f/#", "g/+", "line/+/t"}} {
		g := grantsOf(nil, grants)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !g.MayRead("mHv1.0/ws/line/7/t") {
					b.Fatal("may not")
				}
			}
		})
	}
}

func TestWhoSubscribesToWhatItMayNotReadIsToldWhatItMay(t *testing.T) {
	many := make([]string, 8)
	for i := range many {
		many[i] = fmt.Sprintf("line%d/#", i)
	}
	long := strings.Repeat("ü", 600)
	for _, c := range []struct {
		grants []string
		filter string
		want   string
	}{
		{nil, "x/ws/a", "does not begin with this broker's version; subscribe below mHv1.0/ws/"},
		{nil, "$SYS/#", "does not begin with this broker's version; subscribe below mHv1.0/ws/"},
		{nil, "mHv1.0/other/#", `workspace "other" is not this client's; subscribe below mHv1.0/ws/`},
		{nil, "mHv1.0/" + long + "/#", `workspace "` + strings.Repeat("ü", 64) + `…" is not this client's; subscribe below mHv1.0/ws/`},
		{nil, "mHv1.0", "ends above every value; subscribe below mHv1.0/ws/"},
		{nil, "mHv1.0/ws", "ends above every value; subscribe below mHv1.0/ws/"},
		{nil, "mHv1.0/+", "ends above every value; subscribe below mHv1.0/ws/"},
		{nil, "mHv1.0/ws/_ingress/#", "nobody reads an inbox; what is published to it comes on mHv1.0/ws/<topic>"},
		{nil, "mHv1.0/ws/_errors/you", `client "me" reads its own errors alone; subscribe to mHv1.0/ws/_errors/me`},
		{[]string{"line1/#", "mHv1.0/ws/line2/+", "mHv1.0/other/#", "_errors/#"}, "mHv1.0/ws/line3", `client "me" may not read it; it may read mHv1.0/ws/line1/#, mHv1.0/ws/line2/+, mHv1.0/ws/mHv1.0/other/#`},
		{[]string{"line1/#"}, "mHv1.0/ws/_alerts/line3", `client "me" may not read it; it may read mHv1.0/ws/line1/#`},
		{[]string{}, "mHv1.0/ws/a", `client "me" may not read it; it may read mHv1.0/ws/_errors/me alone`},
		{many, "+/+/a", `client "me" may not read it; it may read mHv1.0/ws/line0/#, mHv1.0/ws/line1/#, mHv1.0/ws/line2/#, mHv1.0/ws/line3/#, mHv1.0/ws/line4/# and 3 more`},
	} {
		g := grantsOf(nil, c.grants)
		if g.ReadsAny(c.filter) {
			t.Errorf("grants %q: %q is not refused", c.grants, c.filter)
		}
		if got := g.Unread(c.filter); got != c.want {
			t.Errorf("grants %q, filter %q:\n%s, want\n%s", c.grants, c.filter, got, c.want)
		}
	}
}
