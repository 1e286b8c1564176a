package topic

import (
	"errors"
	"strings"
	"testing"
)

func TestInboxNamesComeApart(t *testing.T) {
	cases := []struct {
		version, name string
		want          Inbox
		reason        string
	}{
		{"", "mHv1.0/plant/_ingress/press-7/line/1/temperature", Inbox{"plant", "press-7", "line/1/temperature"}, ""},
		{"uns", "uns/plant/_ingress/press-7/t", Inbox{"plant", "press-7", "t"}, ""},
		{"", "mHv1.0/plant/_ingress/press-7//", Inbox{"plant", "press-7", "/"}, ""},
		{"", "mHv1.0/plant/_ingress/press-7/_own", Inbox{"plant", "press-7", "_own"}, ""},
		{"", "mHv1.0/plant/_ingress/press-7/a/_alerts", Inbox{"plant", "press-7", "a/_alerts"}, ""},
		{"", "mHv2.0/plant/_ingress/press-7/t", Inbox{}, "version"},
		{"uns", "mHv1.0/plant/_ingress/press-7/t", Inbox{}, "version"},
		{"", "", Inbox{}, "version"},
		{"", "mHv1.0", Inbox{}, "names no workspace"},
		{"", "mHv1.0//_ingress/press-7/t", Inbox{}, "names no workspace"},
		{"", "mHv1.0/plant", Inbox{}, "not in a device's inbox"},
		{"", "mHv1.0/plant/line/1/temperature", Inbox{}, "not in a device's inbox"},
		{"", "mHv1.0/plant/_errors/press-7", Inbox{}, "not in a device's inbox"},
		{"", "mHv1.0/plant/_ingress", Inbox{}, "names no client"},
		{"", "mHv1.0/plant/_ingress//t", Inbox{}, "names no client"},
		{"", "mHv1.0/plant/_ingress/press-7", Inbox{}, "ends before the topic"},
		{"", "mHv1.0/plant/_ingress/press-7/", Inbox{}, "ends before the topic"},
		{"", "mHv1.0/plant/_ingress/press-7/_alerts/t", Inbox{}, "reserved"},
		{"", "mHv1.0/plant/_ingress/press-7/_errors", Inbox{}, "reserved"},
		{"", "mHv1.0/plant/_ingress/press-7/_ingress/press-8/t", Inbox{}, "reserved"},
	}
	for _, c := range cases {
		got, err := Grammar{Version: c.version}.ParseInbox(c.name)
		if got != c.want {
			t.Errorf("ParseInbox(%q) = %+v, want %+v", c.name, got, c.want)
		}
		var refused *GrammarError
		switch {
		case c.reason == "" && err != nil:
			t.Errorf("ParseInbox(%q) is refused: %v", c.name, err)
		case c.reason != "" && (!errors.As(err, &refused) || !strings.Contains(refused.Reason, c.reason)):
			t.Errorf("ParseInbox(%q): error %v, want a GrammarError with %q", c.name, err, c.reason)
		}
	}
	const want = `topic "mHv1.0/plant/x" is not in a device's inbox: publish to mHv1.0/<workspace>/_ingress/<client id>/<topic>`
	if _, err := (Grammar{}).ParseInbox("mHv1.0/plant/x"); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestNamesAreBuiltAsTheyComeApart(t *testing.T) {
	g := Grammar{Version: "uns"}
	in, err := g.ParseInbox(g.Inbox("plant", "press-7", "line/1"))
	if err != nil || in != (Inbox{"plant", "press-7", "line/1"}) {
		t.Errorf("an inbox name comes apart as %+v, %v", in, err)
	}
	for name, want := range map[string]string{
		g.Data("plant", "line/1"):    "line/1",
		g.Alerts("plant", "line/1"):  "_alerts/line/1",
		g.Errors("plant", "press-7"): "_errors/press-7",
	} {
		if ws, rest, ok := g.Workspace(name); !ok || ws != "plant" || rest != want {
			t.Errorf("Workspace(%q) = %q, %q, %v; want plant, %q", name, ws, rest, ok, want)
		}
	}
	for _, name := range []string{"", "uns", "uns/plant", "uns/plant/", "uns//x", "other/plant/x", "unsx/plant/x"} {
		if ws, rest, ok := g.Workspace(name); ok {
			t.Errorf("Workspace(%q) = %q, %q", name, ws, rest)
		}
	}
}

func TestParseInboxDoesNotAllocate(t *testing.T) {
	n := testing.AllocsPerRun(100, func() {
		if _, err := (Grammar{}).ParseInbox("mHv1.0/plant/_ingress/press-7/line/1/temperature"); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("ParseInbox allocates %v times", n)
	}
}

func BenchmarkParseInbox(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (Grammar{}).ParseInbox("mHv1.0/plant/_ingress/press-7/line/1/temperature"); err != nil {
			b.Fatal(err)
		}
	}
}
