package ingest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"maestrohub.io/uns/broker/value"
)

func TestAnAlertGoesOutWhenATopicEntersALevelAndReturns(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		d := &device{}
		for _, v := range []string{"20", "81", "82", "96", "97", "90", `{"value":10,"quality":"uncertain"}`, "10", "81"} {
			r.publish(d, "temp/a", v, 0)
			synctest.Wait()
		}
		var got []string
		for _, a := range r.audience.notices("_alerts") {
			var alert struct {
				Topic     string
				Value     float64
				Level     string
				Threshold string
				Timestamp time.Time
			}
			if err := json.Unmarshal(a.Payload, &alert); err != nil {
				t.Fatalf("alert %s: %v", a.Payload, err)
			}
			if a.Name != "mHv1.0/acme/_alerts/temp/a" || a.QoS != 1 || a.Position != 0 || alert.Topic != "temp/a" || !alert.Timestamp.Equal(time.Now()) {
				t.Errorf("alert wrong: %+v %s", a, a.Payload)
			}
			if (alert.Level == normal) != (alert.Threshold == "") {
				t.Errorf("alert of level %s names the threshold %q", alert.Level, alert.Threshold)
			}
			got = append(got, fmt.Sprint(alert.Value, alert.Level))
		}
		if want := "81warn 96critical 90warn 10normal 81warn"; strings.Join(got, " ") != want {
			t.Errorf("alerts %q, want %q", got, want)
		}
	})
}

func TestAlertsAreBounded(t *testing.T) {
	var a alarms
	now := time.Now()
	sent := 0
	for n := range 5000 {
		level := ""
		if n%2 == 0 {
			level = "warn"
		}
		if a.crossed("swinging", level, now) != "" {
			sent++
		}
	}
	if sent != alertsBurst {
		t.Errorf("%d alerts at once, want %d", sent, alertsBurst)
	}
	now = now.Add(time.Minute)
	for n := range 3 * maxAlarms {
		now = now.Add(time.Second / alertsRate)
		if a.crossed(fmt.Sprint(n), "warn", now) != "warn" {
			t.Fatalf("topic %d entered a level unannounced", n)
		}
	}
	if len(a.levels) > maxAlarms {
		t.Errorf("%d topics remembered, want at most %d", len(a.levels), maxAlarms)
	}
}

func TestACrossingOverTheRateIsAnnouncedByTheNextValue(t *testing.T) {
	var a alarms
	now := time.Now()
	for n := range alertsBurst {
		a.crossed(fmt.Sprint(n), "warn", now)
	}
	if got := a.crossed("0", "", now); got != "" {
		t.Fatalf("over the rate: %q announced", got)
	}
	if got := a.crossed("0", "", now.Add(time.Second)); got != normal {
		t.Errorf("the next value announces %q, want %q", got, normal)
	}
}

func TestErrorsAreToldToTheirClientAtABoundedRate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.audience.want(everything)
		d := &device{}
		for range 100 {
			r.publish(d, "temp/a", "999", 2)
		}
		synctest.Wait()
		errors := r.audience.notices("_errors")
		if len(errors) != errorsBurst {
			t.Errorf("%d errors at once, want %d", len(errors), errorsBurst)
		}
		var e struct {
			Topic, Reason, Detail string
			Timestamp             time.Time
			QoS                   byte
		}
		if err := json.Unmarshal(errors[0].Payload, &e); err != nil {
			t.Fatal(err)
		}
		if v := errors[0]; v.Name != "mHv1.0/acme/_errors/press" || v.QoS != 0 || e.Topic != "mHv1.0/acme/_ingress/press/temp/a" ||
			e.Reason != "range" || e.Detail == "" || e.QoS != 2 || !e.Timestamp.Equal(time.Now()) {
			t.Errorf("error wrong: %+v %s", v, v.Payload)
		}
		if len(r.log.taken) > 0 || len(r.historian.rows) > 0 {
			t.Error("an error was stored")
		}
		later(time.Second)
		for range 100 {
			r.publish(d, "temp/a", "999", 1)
		}
		synctest.Wait()
		if n := len(r.audience.notices("_errors")) - errorsBurst; n != errorsRate {
			t.Errorf("%d errors a second later, want %d", n, errorsRate)
		}
	})
}

func TestTheRejectFeedIsReadPageByPage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.RejectsKept = 5 })
		d := &device{}
		if got := r.Rejects("acme", 0, 10); len(got) != 0 {
			t.Errorf("feed of an idle workspace: %+v", got)
		}
		for range 12 {
			r.publish(d, "temp/a", strings.Repeat("9", 2000), 1)
		}
		synctest.Wait()
		sequences := func(since uint64, limit int) string {
			var s []uint64
			for _, reject := range r.Rejects("acme", since, limit) {
				s = append(s, reject.Sequence)
				if reject.Refusal != Range && reject.Refusal != Schema || reject.Client != "press" || reject.ClientID != "press-1" || len(reject.Detail) > 512 {
					t.Errorf("reject wrong: %+v", reject)
				}
			}
			return fmt.Sprint(s)
		}
		for _, c := range []struct {
			since uint64
			limit int
			want  string
		}{{0, 2, "[8 9]"}, {9, 2, "[10 11]"}, {11, 2, "[12]"}, {12, 2, "[]"}, {99, 2, "[]"}, {0, 0, "[]"}, {^uint64(0), 3, "[]"}, {3, 100, "[8 9 10 11 12]"}} {
			if got := sequences(c.since, c.limit); got != c.want {
				t.Errorf("after %d at most %d: %s, want %s", c.since, c.limit, got, c.want)
			}
		}
		if got := shorten("aé", 2); got != "a" {
			t.Errorf("shorten cut a character in two: %q", got)
		}
	})
}

func TestEachCompletionIsFlushedOncePerBatch(t *testing.T) {
	var f flushes
	devices := make([]device, 50)
	for range 3 {
		for round := range 4 {
			for n := range devices {
				f.complete(&devices[n], uint64(round), Outcome{})
			}
		}
		f.flush()
	}
	for n := range devices {
		if devices[n].flushes != 3 {
			t.Fatalf("device %d flushed %d times in three batches, want 3", n, devices[n].flushes)
		}
	}
}

func TestEveryRefusalHasAName(t *testing.T) {
	seen := make(map[string]Refusal)
	for _, r := range Refusals() {
		if other, dup := seen[r.Reason()]; dup {
			t.Errorf("refusals %d and %d are both %q", r, other, r.Reason())
		}
		seen[r.Reason()] = r
	}
	if len(seen) != int(TooOld-NotInbox)+1+int(Shed-Unstorable)+1 {
		t.Errorf("%d names, one is missing", len(seen))
	}
	if Refusal(0).String() != "none" || Refusal(0).Reason() != "" {
		t.Error("no refusal has a reason")
	}
}

func TestNoSubscribersIsSaidIfLiveKnows(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.Live = knowing{o.Live.(*audience)} })
		d := &device{}
		r.publish(d, "a", "1", 1)
		r.publish(d, "heard", "2", 1)
		synctest.Wait()
		if !d.outcomes[0].NoSubscribers || d.outcomes[1].NoSubscribers {
			t.Errorf("outcomes %+v, want no subscribers for the first only", d.outcomes)
		}
	})
}

type knowing struct{ *audience }

func (knowing) Audience(v *value.Value) bool { return v.Topic == "heard" }
