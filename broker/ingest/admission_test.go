package ingest

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"maestrohub.io/uns/broker/value"
)

func TestEveryRefusalAtAdmissionIsAnOutcome(t *testing.T) {
	cases := map[string]struct {
		name, payload string
		want          Refusal
		detail        string // a part of it
	}{
		"data topic":       {"mHv1.0/acme/temp/a", "1", NotInbox, "publish to mHv1.0/acme/_ingress/press/<topic>"},
		"other version":    {"mHv2.0/acme/_ingress/press/temp/a", "1", NotInbox, "mHv1.0"},
		"no topic":         {"mHv1.0/acme/_ingress/press", "1", NotInbox, ""},
		"reserved level":   {"mHv1.0/acme/_ingress/press/_alerts/a", "1", NotInbox, "_alerts"},
		"wildcard":         {"mHv1.0/acme/_ingress/press/temp/+", "1", TopicInvalid, ""},
		"too many levels":  {"mHv1.0/acme/_ingress/press/a/b/c/d/e", "1", TopicInvalid, "at most 8"},
		"too many bytes":   {"mHv1.0/acme/_ingress/press/" + strings.Repeat("a", 65), "1", TopicInvalid, "at most 64"},
		"other workspace":  {"mHv1.0/globex/_ingress/press/temp/a", "1", OtherWorkspace, `"globex" is not this client's; publish to mHv1.0/acme/_ingress/press/<topic>`},
		"other inbox":      {"mHv1.0/acme/_ingress/lathe/temp/a", "1", OtherInbox, `"lathe", signed in as "press"; publish to mHv1.0/acme/_ingress/press/<topic>`},
		"not granted":      {"mHv1.0/acme/_ingress/press/forbidden", "1", NotGranted, "forbidden"},
		"not a value":      {"mHv1.0/acme/_ingress/press/temp/a", "{", Payload, ""},
		"empty":            {"mHv1.0/acme/_ingress/press/temp/a", "", Payload, ""},
		"wrong type":       {"mHv1.0/acme/_ingress/press/temp/a", `"warm"`, Schema, ""},
		"out of range":     {"mHv1.0/acme/_ingress/press/temp/a", "151", Range, "150"},
		"too bad":          {"mHv1.0/acme/_ingress/press/temp/a", `{"value":1,"quality":"bad"}`, Quality, ""},
		"too large":        {"mHv1.0/acme/_ingress/press/count/a", "10000000000000000", TooLarge, "16"},
		"not even a topic": {"", "1", TopicInvalid, ""},
	}
	limited := signedIn(t, "press", "acme", "temp/#", "count/#", "+/b/c/d/#", "a/#")
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newRig(t, func(o *Options) { o.MaxTopicLevels, o.MaxTopicBytes = 8, 64 })
				r.grants = limited
				d := &device{}
				r.Publish(Publish{Name: c.name, Payload: []byte(c.payload), QoS: 1, Grants: r.grants, Done: d})
				synctest.Wait()
				r.expect(d, "0:"+c.want.Reason())
				if !strings.Contains(d.outcomes[0].Detail, c.detail) {
					t.Errorf("detail %q does not mention %q", d.outcomes[0].Detail, c.detail)
				}
				if r.historian.calls > 0 {
					t.Error("a refused value reached the historian")
				}
				if rejects := r.Rejects("acme", 0, 10); len(rejects) != 1 || rejects[0].Refusal != c.want || rejects[0].Topic != c.name {
					t.Errorf("reject feed %+v, want one %s of %q", rejects, c.want, c.name)
				}
				notices := r.audience.notices("_errors")
				if len(notices) != 1 {
					t.Fatalf("%d values on _errors, want 1", len(notices))
				}
				if payload := string(notices[0].Payload); strings.Contains(payload, `\u00`) || strings.HasSuffix(payload, "\n") {
					t.Errorf("_errors %q, want it as people read it", payload)
				}
			})
		})
	}
}

func TestAValueCarriesWhatItsPublishSaid(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		d := &device{}
		now := time.Now().UnixNano()
		properties := value.Properties{ContentType: "x", User: []value.UserProperty{{Key: "k", Value: "v"}}}
		r.publish(d, "temp/a", `{"value": 7.5, "timestamp": 1000, "quality": "uncertain"}`, 2, func(p *Publish) {
			p.Properties, p.Expiry, p.HasExpiry = properties, 60, true
		})
		r.publish(d, "kept/b", `1`, 0)
		r.publish(d, "will", `2`, 1, func(p *Publish) { p.Timestamp, p.RowID = 5, 6 })
		synctest.Wait()
		r.expect(d, "0:ok 1:ok 2:ok")
		live := r.audience.data()
		if len(live) != 3 {
			t.Fatalf("%d live copies, want 3", len(live))
		}
		a, b, c := live[0], live[1], live[2]
		if a.Name != "mHv1.0/acme/temp/a" || a.Topic != "temp/a" || a.Publisher != "press" || a.ClientID != "press-1" || a.Workspace != "acme" {
			t.Errorf("names wrong: %+v", a)
		}
		if !a.Timed || a.Timestamp != int64(time.Second) || a.RowID != 0 || a.Received != now || a.Quality.Grade() != value.Uncertain ||
			string(a.Body) != "7.5" || a.QoS != 2 || a.Retain || a.Expires != now+int64(time.Minute) || a.Position == 0 {
			t.Errorf("timed value wrong: %+v", a)
		}
		if a.Properties.ContentType != "x" || len(a.Properties.User) != 1 {
			t.Errorf("properties lost: %+v", a.Properties)
		}
		if b.Timed || b.Timestamp != now || b.RowID == 0 || b.QoS != 1 || !b.Retain || b.Expires != 0 {
			t.Errorf("untimed value wrong: %+v", b)
		}
		if c.Timed || c.Timestamp != 5 || c.RowID != 6 {
			t.Errorf("value with a fixed row wrong: %+v", c)
		}
		if o := r.Check("mHv1.0/acme/_ingress/lathe/x", r.grants); o.Refusal != OtherInbox {
			t.Errorf("Check of another's inbox: %s, want %s", o.Refusal, OtherInbox)
		}
		if o := r.Check("mHv1.0/acme/_ingress/press/x", r.grants); o.Refusal != 0 {
			t.Errorf("Check of the own inbox: %s, want none", o.Refusal)
		}
	})
}
