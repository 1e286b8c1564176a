package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/device"
	"maestrohub.io/uns/tests/device/fleet"
)

// sound is a report with nothing wrong in it, of a drill that saw everything.
func sound() *Report {
	at := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	return &Report{
		Site: "test", Replicas: []string{"uns-0"}, Begun: at, PublishingEnded: at.Add(time.Minute), Ended: at.Add(time.Minute), Left: at.Add(time.Second),
		Topics: []Topic{{Publisher: "p", Acknowledged: 9, Stored: 9}},
		Pairs: []Pair{
			{Session: "saved", Publisher: "p", Record: device.Record{Acknowledged: 9, Arrived: 9, Again: 2, Excused: 1}},
			{Session: "live", Publisher: "p", Live: true, Record: device.Record{Acknowledged: 9, Arrived: 7, Missing: []int{3, 4}}},
		},
		Wills:  []Will{{Device: "leaver", At: at.Add(30 * time.Second), Left: true}},
		Faults: []Fault{{Name: "kill", Begun: at, Ended: at.Add(5 * time.Second), Whole: at.Add(9 * time.Second), FlowedAfter: 2, Within: 15}},
		Devices: []Device{{ID: "p", Kind: "publisher, MQTT 5, QoS 1", Gap: 2, GapBegun: at, Events: []DeviceTime{
			{At: at, What: "connected", Replica: "uns-0"}, {At: at.Add(time.Second), What: "lost"}, {At: at.Add(2 * time.Second), What: "refused", Code: 0x88}}}},
		Acknowledged: []int{1, 2}, Delivered: []int{2, 4},
	}
}

var devices = &fleet.Fleet{Leaver: &device.Subscriber{Device: device.Device{ID: "leaver"}}, Witness: &device.Subscriber{}}

func TestEachPromiseIsBrokenByWhatBreaksIt(t *testing.T) {
	cases := map[string]struct {
		promise string // "" none
		do      func(r *Report)
		says    string
	}{
		"nothing":                              {"", func(*Report) {}, ""},
		"a value missing in history":           {"stored", func(r *Report) { r.Topics[0].Missing = []int{4} }, "1 of 9 acknowledged values are not in history"},
		"a value twice in history":             {"stored", func(r *Report) { r.Topics[0].Twice = []int{4} }, "more than once"},
		"a saved session without a value":      {"saved-sessions", func(r *Report) { r.Pairs[0].Missing = []int{7} }, "saved did not get 1 of 9"},
		"a value from nowhere":                 {"saved-sessions", func(r *Report) { r.Pairs[0].Strange = []int{99} }, "never sent"},
		"a value after a later one":            {"order", func(r *Report) { r.Pairs[1].Unordered = []int{2} }, "after later ones"},
		"a QoS 2 value again":                  {"exactly-once", func(r *Report) { r.Pairs[0].Doubled = []int{5} }, "QoS 2 at both sides"},
		"a live session misses while served":   {"live", func(r *Report) { r.Pairs[1].MissingWhileConnected = []int{3} }, "was connected and did not get"},
		"a will of a device that came back":    {"wills", func(r *Report) { r.Wills = append(r.Wills, Will{Device: "p", At: r.Begun}) }, "the will of p, which came back"},
		"no will of the device that left":      {"wills", func(r *Report) { r.Wills = nil }, "was sent 0 times"},
		"two wills of the device that left":    {"wills", func(r *Report) { r.Wills = append(r.Wills, r.Wills[0]) }, "was sent 2 times"},
		"values flow too late":                 {"flow", func(r *Report) { r.Faults[0].FlowedAfter = 16 }, "promised within 15 s"},
		"a cluster that does not become whole": {"flow", func(r *Report) { r.Faults[0].NotWhole = true }, "not every replica served"},
	}
	for name, c := range cases {
		r := sound()
		c.do(r)
		r.judge(devices)
		found := r.Broken()
		switch {
		case c.promise == "" && len(found) > 0:
			t.Errorf("%s: broken: %+v", name, found)
		case c.promise != "" && (len(found) != 1 || found[0].ID != c.promise || !strings.Contains(strings.Join(found[0].Evidence, "\n"), c.says)):
			t.Errorf("%s: broken: %+v, want %s, which says %q", name, found, c.promise, c.says)
		}
	}
}

func TestWithoutAFaultNothingIsClaimed(t *testing.T) {
	r := sound()
	r.Faults, r.Left, r.Wills = nil, time.Time{}, nil
	r.judge(devices)
	for _, p := range r.Promises {
		if want := p.ID == "wills" || p.ID == "flow"; (p.Verdict == unseen) != want {
			t.Errorf("promise %s: %s", p.ID, p.Verdict)
		}
	}
}

func TestWithoutAValueNothingIsClaimed(t *testing.T) {
	r := sound()
	r.Faults, r.Left, r.Wills = nil, time.Time{}, nil
	r.Topics[0] = Topic{Publisher: "p"}
	for i := range r.Pairs {
		r.Pairs[i].Record = device.Record{}
	}
	r.judge(devices)
	for _, p := range r.Promises {
		if p.Verdict != unseen {
			t.Errorf("promise %s: %s, and no value was published", p.ID, p.Verdict)
		}
	}
}

func TestAReplicaThatRanOnIsFoundOut(t *testing.T) {
	begun := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return begun.Add(time.Duration(seconds) * time.Second) }
	look := func(seconds int, zero, one time.Time) sight {
		s := sight{At: at(seconds), Started: map[string]time.Time{"uns-0": zero}}
		if !one.IsZero() { // it answers
			s.Started["uns-1"] = one
		}
		return s
	}
	for name, c := range map[string]struct {
		sights   []sight
		replicas []string
		want     string
	}{
		"ended":         {[]sight{look(-1, at(-9), at(-8)), look(0, at(-9), at(-8)), look(1, at(-9), time.Time{}), look(2, at(-9), at(2))}, []string{"uns-1"}, ""},
		"ran on":        {[]sight{look(-1, at(-9), at(-8)), look(1, at(-9), at(-8))}, []string{"uns-1"}, "uns-1 was not ended"},
		"one of two":    {[]sight{look(-1, at(-9), at(-8)), look(2, at(1), at(-8))}, []string{"uns-0", "uns-1"}, "uns-1 was not ended"},
		"never seen":    {[]sight{look(2, at(1), at(1))}, []string{"uns-0", "uns-1"}, ""},
		"not asked for": {[]sight{look(-1, at(-9), at(-8)), look(2, at(1), at(-8))}, []string{"uns-0"}, ""},
	} {
		if got := (&observer{sights: c.sights}).ranOn(c.replicas, begun); got != c.want && (c.want == "" || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestOnlyWhatWasOnItsWayWhileConnectedCountsForALiveSession(t *testing.T) {
	at := time.Now()
	events := []device.Event{{At: at, What: "connected"}, {At: at.Add(60 * time.Second), What: "lost", Code: mqtt.ServerShuttingDown}, {At: at.Add(70 * time.Second), What: "connected"}}
	acked := map[int]time.Time{1: at.Add(time.Second), 2: at.Add(30 * time.Second), 3: at.Add(59 * time.Second), 4: at.Add(65 * time.Second), 5: at.Add(90 * time.Second)}
	begun := map[int]time.Time{}
	for n, at := range acked {
		begun[n] = at.Add(-time.Second)
	}
	if got := whileConnected([]int{1, 2, 3, 4, 5}, begun, acked, events); !slices.Equal(got, []int{2, 5}) {
		t.Errorf("missing while connected: %v, want [2 5]", got)
	}
	// The drill's own end.
	if got := whileConnected([]int{1, 2, 3, 4, 5}, begun, acked, append(events, device.Event{At: at.Add(91 * time.Second), What: "ended"})); !slices.Equal(got, []int{2}) {
		t.Errorf("missing while connected, with an end: %v, want [2]", got)
	}
	// Passed on before both lost their replica, acknowledged where the device came back.
	begun[5] = at.Add(59 * time.Second)
	if got := whileConnected([]int{2, 5}, begun, acked, events); !slices.Equal(got, []int{2}) {
		t.Errorf("missing while connected, where the acknowledgment came late: %v, want [2]", got)
	}
	// One that took long, and the session was there all the while.
	begun[5] = at.Add(75 * time.Second)
	if got := whileConnected([]int{5}, begun, acked, events); !slices.Equal(got, []int{5}) {
		t.Errorf("missing while connected, where it took long: %v, want [5]", got)
	}
}

func TestAWillIsDueFromTheLossOfItsConnectionOn(t *testing.T) {
	told := time.Now()
	before, after := told.Add(-time.Minute), told.Add(time.Minute)
	for name, c := range map[string]struct {
		events []device.Event
		want   time.Time
	}{
		"lost long after it was told":   {[]device.Event{{At: before, What: "connected"}, {At: after, What: "lost"}}, after},
		"lost, and refused since":       {[]device.Event{{At: after, What: "lost"}, {At: after.Add(time.Second), What: "refused"}}, after},
		"lost before, and away since":   {[]device.Event{{At: before, What: "lost"}}, before},
		"a loss that it did not notice": {[]device.Event{{At: before, What: "lost"}, {At: before, What: "connected"}}, told},
		"nothing is known of it at all": {nil, told},
	} {
		if got := lostAt(told, c.events); !got.Equal(c.want) {
			t.Errorf("%s: %v after it was told, want %v", name, got.Sub(told), c.want.Sub(told))
		}
	}
}

func TestTheReportSaysThatAFaultCutShortShowedNothing(t *testing.T) {
	r := sound()
	r.Faults[0].Ended = time.Time{}
	r.judge(devices)
	path := filepath.Join(t.TempDir(), "report")
	if err := r.write(path); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(path + ".html")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"Every promise that could be seen was kept; 1 could not be seen.", "no fault was seen to its end"} {
		if !bytes.Contains(page, []byte(part)) {
			t.Errorf("the page lacks %q", part)
		}
	}
}

func TestTheReportStandsByItself(t *testing.T) {
	r := sound()
	r.Pairs[0].Session = `<script>alert("x")</script>`
	r.judge(devices)
	path := filepath.Join(t.TempDir(), "report")
	if err := r.write(path); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(path + ".html")
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<script", "http://", "https://", "src=", "@import", "NaN"} {
		if bytes.Contains(page, []byte(bad)) {
			t.Errorf("the page has %q in it: it must need nothing else", bad)
		}
	}
	for _, part := range []string{"Every promise was kept.", "<svg", "nothing for 2.0 s", "0x88"} {
		if !bytes.Contains(page, []byte(part)) {
			t.Errorf("the page lacks %q", part)
		}
	}
}

func TestTheTextOfAGapLiesOnNoBar(t *testing.T) {
	r := sound()
	r.Devices = append(r.Devices, r.Devices[0], r.Devices[0])
	text := string(r.picture())
	number := func(s string) float64 {
		n, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	bars := regexp.MustCompile(`<rect class="r0" x="[^"]*" y="([^"]*)" width="[^"]*" height="([^"]*)"`).FindAllStringSubmatch(text, -1)
	gaps := regexp.MustCompile(`<text class="gaptext"[^>]* y="([^"]*)"`).FindAllStringSubmatch(text, -1)
	if len(bars) != 3 || len(gaps) != 3 {
		t.Fatalf("%d bars and %d gaps in\n%s", len(bars), len(gaps), text)
	}
	const high = 7 // of the digits of a gap, above its baseline
	for _, g := range gaps {
		for _, b := range bars {
			if top, bottom := number(b[1]), number(b[1])+number(b[2]); number(g[1]) > top && number(g[1])-high < bottom {
				t.Errorf("the text of a gap at %s lies on the bar from %v to %v", g[1], top, bottom)
			}
		}
	}
}

func TestFaultsAreChosenByNameAndABadNameIsNamed(t *testing.T) {
	list, err := chosen([]string{"stop", "kill", "stop"})
	if err != nil || len(list) != 2 || list[0].Name != "kill" || list[1].Name != "stop" {
		t.Errorf("kill and stop: %+v, %v", list, err)
	}
	if list, err := chosen([]string{"all"}); err != nil || len(list) != len(faults) {
		t.Errorf("all: %d faults, %v", len(list), err)
	}
	if _, err := chosen([]string{"kill", "explode"}); err == nil || !strings.Contains(err.Error(), `"explode"`) || !strings.Contains(err.Error(), "mesh-cut") {
		t.Errorf("a bad name: %v, want it and what is allowed", err)
	}
}

// What is written in the report is legible in both themes (WCAG 2.2: 4.5 for text, 3 for
// what is drawn), on its card and where a fault is shaded.
func TestTheReportIsLegibleInBothThemes(t *testing.T) {
	light, dark, found := strings.Cut(page, "@media (prefers-color-scheme: dark)")
	dark, _, _ = strings.Cut(dark, "\n")
	colours := map[string][4]float64{}
	read := func(css string) int {
		all := regexp.MustCompile(`--(\w+):#([0-9a-f]{3,8})\b`).FindAllStringSubmatch(css, -1)
		for _, m := range all {
			colours[m[1]] = rgba(t, m[2])
		}
		return len(all)
	}
	for _, theme := range []struct{ name, css string }{{"light", light}, {"dark", dark}} { // what the dark one does not name stays
		if n := read(theme.css); !found || n < 15 {
			t.Fatalf("%d colours in the %s theme", n, theme.name)
		}
		shaded := over(colours["fault"], colours["card"])
		for _, c := range []struct {
			names  string
			ground [4]float64
			least  float64
		}{
			{"text quiet good bad", colours["card"], 4.5},
			{"text quiet", colours["ground"], 4.5},
			{"good", colours["goodground"], 4.5},
			{"bad", colours["badground"], 4.5},
			{"gap faulttext", shaded, 4.5},
			{"gap faulttext", colours["card"], 4.5},
			{"r0 r1 r2 r3 r4 r5 unknown ack del refused will falsewill", colours["card"], 3},
		} {
			for name := range strings.FieldsSeq(c.names) {
				if got := contrast(colours[name], c.ground); got < c.least {
					t.Errorf("%s theme: %s has a contrast of %.2f, want %.1f", theme.name, name, got, c.least)
				}
			}
		}
	}
}

// rgba reads a colour of a style sheet: three or four digits, or twice as many.
func rgba(t *testing.T, hex string) (c [4]float64) {
	t.Helper()
	if len(hex) < 6 {
		var long strings.Builder
		for _, d := range hex {
			long.WriteRune(d)
			long.WriteRune(d)
		}
		hex = long.String()
	}
	if len(hex) == 6 {
		hex += "ff"
	}
	for i := range c {
		n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c[i] = float64(n) / 255
	}
	return c
}

// over is a colour that shows another through it.
func over(c, ground [4]float64) (mixed [4]float64) {
	for i := range 3 {
		mixed[i] = c[i]*c[3] + ground[i]*(1-c[3])
	}
	mixed[3] = 1
	return mixed
}

// contrast is the ratio of two colours' relative luminances.
func contrast(a, b [4]float64) float64 {
	light := func(c [4]float64) (sum float64) {
		for i, weight := range []float64{.2126, .7152, .0722} {
			v := c[i] / 12.92
			if c[i] > .03928 {
				v = math.Pow((c[i]+.055)/1.055, 2.4)
			}
			sum += weight * v
		}
		return sum
	}
	high, low := max(light(a), light(b)), min(light(a), light(b))
	return (high + .05) / (low + .05)
}
