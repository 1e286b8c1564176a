package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/value"
)

// expectEach checks the refusals of the device's publishes, whose order those of
// admission and those of the lane do not share.
func (r *rig) expectEach(d *device, want ...Refusal) {
	r.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for slot, w := range want {
		if o, ok := d.outcomes[uint64(slot)]; !ok || o.Refusal != w {
			r.t.Errorf("publish %d: outcome %s (given: %t), want %s", slot, o.Refusal, ok, w)
		}
	}
}

func TestAValueOlderThanTheHistorianKeepsIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.MaxAge = 90 * 24 * time.Hour })
		d := &device{}
		kept := time.Now().Add(-90 * 24 * time.Hour).UnixMilli()
		r.publish(d, "count/a", `1`, 1)
		r.publish(d, "a", `{"value":1,"timestamp":1000}`, 1)
		r.publish(d, "a", fmt.Sprintf(`{"value":1,"timestamp":%d}`, kept-1), 1)
		r.publish(d, "a", fmt.Sprintf(`{"value":1,"timestamp":%d}`, kept), 1)
		r.publish(d, "kept/a", `{"value":1,"timestamp":1000}`, 0)
		r.publish(d, "kept/a", ``, 1, func(p *Publish) { p.Timestamp = 5 }) // deletes, whatever its time
		r.publish(d, "will", `2`, 1, func(p *Publish) { p.Timestamp, p.RowID = 5, 6 })
		synctest.Wait()
		r.expectEach(d, 0, TooOld, TooOld, 0, TooOld, 0, TooOld)
		if detail := d.outcomes[1].Detail; !strings.Contains(detail, "1970-01-01") || !strings.Contains(detail, "90 days") {
			t.Errorf("detail %q names neither the timestamp nor what is kept", detail)
		}
		if n := len(r.historian.rows); n != 2 {
			t.Errorf("%d values stored, want 2", n)
		}
	})
}

func TestAValueNoSessionLogCouldHoldIsRefusedBeforeItIsStored(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const most = 64 << 10
		r := newRig(t, func(o *Options) { o.MaxRecordBytes = most })
		r.audience.want(everything)
		d := &device{}
		r.publish(d, "a", `"`+strings.Repeat("x", most-sharesRoom-fixedRecordBytes-200)+`"`, 1)
		r.publish(d, "a", `"`+strings.Repeat("x", most)+`"`, 1)
		r.publish(d, "a", `1`, 0, func(p *Publish) {
			p.Properties.User = make([]value.UserProperty, most/userRecordBytes)
		})
		synctest.Wait()
		r.expectEach(d, 0, TooLarge, TooLarge)
		if n := len(r.historian.rows); n != 1 {
			t.Errorf("%d values stored, want 1", n)
		}
	})
}

func TestAPayloadIsBoundedWhateverItCameBy(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.MaxPayloadBytes = 16 })
		d := &device{}
		r.publish(d, "a", "1234567890123456", 1)
		r.publish(d, "a", "12345678901234567", 1)
		r.publish(d, "blob/a", "12345678901234567", 1)
		synctest.Wait()
		r.expectEach(d, 0, TooLarge, TooLarge)
	})
}

func TestARecordIsNeverLargerThanWasReckoned(t *testing.T) {
	long := strings.Repeat("x", 300)
	v := &value.Value{Workspace: long, Name: long + long, Topic: long, Publisher: long, ClientID: long,
		Timestamp: math.MinInt64, Received: math.MinInt64, Expires: math.MinInt64, RowID: math.MaxUint64, Position: math.MaxUint64,
		Payload: []byte(long), Body: []byte(long)}
	v.Properties = value.Properties{ContentType: long, HasContentType: true, ResponseTopic: long, CorrelationData: []byte(long), HasPayloadFormat: true}
	for range 100 {
		v.Properties.User = append(v.Properties.User, value.UserProperty{Key: strings.Repeat("k", 65_535), Value: strings.Repeat("x", 65_535)})
	}
	if have, reckoned := int64(len(v.AppendRecord(nil))), recordBytes(v)-sharesRoom; have > reckoned {
		t.Errorf("record of %d bytes, reckoned at most %d", have, reckoned)
	}
}

func TestARefusalSaysWhetherTheValueIsStoredAllTheSame(t *testing.T) {
	for name, c := range map[string]struct {
		topic   string
		payload string
		broken  func(r *rig)
		want    Refusal
		kept    Kept
	}{
		"log too slow":      {"a", "1", func(r *rig) { r.log.behave = func(int) error { return state.ErrUnavailable } }, LogTimeout, Stored},
		"log refuses":       {"a", "1", func(r *rig) { r.log.behave = func(int) error { return state.ErrQuota } }, LogRefused, Stored},
		"retained too slow": {"kept/a", "1", func(r *rig) { r.log.put = func(int) error { return state.ErrUnavailable } }, RetainedTimeout, Stored},
		"nothing to store":  {"kept/a", "", func(r *rig) { r.log.put = func(int) error { return state.ErrUnavailable } }, RetainedTimeout, NotStored},
		"refused value": {"a", "1", func(r *rig) {
			r.historian.set(func(int, []*value.Value) error { return &historian.ValueError{Err: historian.ErrQuery} })
		}, Unstorable, NotStored},
		"historian breaks": {"a", "1", func(r *rig) {
			r.historian.set(func(int, []*value.Value) error { return historian.ErrUnavailable })
		}, HistorianUnavailable, MaybeStored},
		"admission": {"count/a", "1.5", func(*rig) {}, Schema, NotStored},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newRig(t, nil)
				r.audience.want(everything)
				c.broken(r)
				d := &device{}
				r.publish(d, c.topic, c.payload, 1)
				later(2 * time.Minute)
				if o := d.outcomes[0]; o.Refusal != c.want || o.Kept != c.kept {
					t.Errorf("outcome %s kept %d, want %s kept %d", o.Refusal, o.Kept, c.want, c.kept)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_ = r.Stop(ctx) // a log that never takes what it was given holds it
			})
		})
	}
}

func TestAnOutcomeTellsAClearedMessageFromAStoredValue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		d := &device{}
		r.publish(d, "kept/a", "1", 1)
		r.publish(d, "kept/a", "", 1)
		r.publish(d, "blob/kept", "", 1)
		synctest.Wait()
		r.expect(d, "0:ok 1:ok 2:ok")
		for slot, want := range []bool{false, true, false} {
			if got := d.outcomes[uint64(slot)].Cleared; got != want {
				t.Errorf("publish %d: cleared %t, want %t", slot, got, want)
			}
		}
	})
}

func TestADeviceIsToldInWordsWhatTheLogTellsInFull(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		want   Refusal
		detail string
	}{
		"outage": {&historian.Outage{Words: "the disk is full", Cause: errors.New("write /data/history: no space left on device")},
			HistorianUnavailable, "historian unavailable: the disk is full"},
		"anything else": {errors.New("write /data/history: odd"), Unstorable, "the historian cannot store this value; the broker's log says why"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var log bytes.Buffer
				r := newRig(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
				r.historian.set(func(int, []*value.Value) error { return c.err })
				d := &device{}
				r.publish(d, "a", "1", 1)
				later(2 * time.Minute)
				if o := d.outcomes[0]; o.Refusal != c.want || o.Detail != c.detail {
					t.Errorf("outcome %s %q, want %s %q", o.Refusal, o.Detail, c.want, c.detail)
				}
				if !strings.Contains(log.String(), "/data/history") {
					t.Errorf("log %q does not say where", log.String())
				}
			})
		})
	}
}
