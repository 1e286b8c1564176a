package api

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	"maestrohub.io/uns/broker/model"
)

// FuzzWrite feeds bodies of a write through to the payloads they become: what a
// device would have published is valid JSON, and a value stays what it was.
func FuzzWrite(f *testing.F) {
	for _, body := range []string{
		`{"values": [{"topic": "a", "value": 1}]}`,
		`{"values": [{"topic": "a", "value": {"value": {"value": 1}}}]}`,
		`{"values": [{"topic": "a", "value": null, "timestamp": "2026-01-31T08:00:00Z", "quality": "bad"}]}`,
		`{"values": [{"topic": "a", "opaque": "AAEC", "qos": 2, "expirySeconds": 1}]}`,
		`{"values": [{"topic": "a", "value": {"VALUE": 1}, "quality": {"value": [}}]}`,
	} {
		f.Add([]byte(body))
	}
	topic := func() *model.Topic {
		w, _ := model.Empty().Workspace("plant")
		return w.Topic("a")
	}()
	f.Fuzz(func(t *testing.T, data []byte) {
		var body struct {
			Values []newValue `json:"values"`
		}
		if decodeJSON(data, &body) != nil {
			return
		}
		for i, v := range body.Values {
			payload, refused := v.payload(i)
			if refused != nil {
				if refused.status != http.StatusBadRequest || refused.detail == "" {
					t.Fatalf("value %d refused with %+v", i, refused)
				}
				continue
			}
			if v.Opaque != nil {
				continue
			}
			if !json.Valid(payload) {
				t.Fatalf("value %s becomes %q, which is not JSON", v.Value, payload)
			}
			if reading, violation := topic.Read(payload); violation == nil && string(reading.Body) != string(v.Value) {
				t.Fatalf("value %s becomes %s, read back as %s", v.Value, payload, reading.Body)
			}
		}
	})
}

// FuzzQuery feeds query strings through every kind of parameter: each is in its
// range or refused.
func FuzzQuery(f *testing.F) {
	for _, q := range []string{"", "at=1769846400000", "at=2026-01-31T08:00:00+01:00", "n=7&word=b", "n=-1", "word=c", "topic=a/%23", "at=9223372036854775807", "seq=18446744073709551615"} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		q := newQuery(&http.Request{URL: &url.URL{RawQuery: raw}}, "at", "n", "word", "topic", "seq")
		at, n, word, filter, sequence := q.instant("at", 0), q.integer("n", 5, 1, 9), q.oneOf("word", "a", "b"), q.topicFilter("topic"), q.sequence("seq")
		if q.refused != nil {
			if q.refused.status != http.StatusBadRequest || q.refused.code != codeParameter {
				t.Fatalf("refused with %+v", q.refused)
			}
			return
		}
		if at < 0 || n < 1 || n > 9 || word != "a" && word != "b" || filter == "" || sequence > 1<<63-1 {
			t.Fatalf("%q gives at %d, n %d, word %q, topic %q, sequence %d", raw, at, n, word, filter, sequence)
		}
	})
}
