package ingest

import (
	"bytes"
	"encoding/json"
	"sync"
	"time"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/broker/topic"
	"maestrohub.io/uns/broker/value"
)

// rejection is what is reported of a refused publish.
type rejection struct {
	topic, clientID string
	qos             byte
	Outcome
}

// report counts a refusal before the lane and reports it in the client's own
// workspace, whatever the name it published to.
func (i *Ingest) report(g *access.Grants, r rejection) {
	if g != nil {
		l := i.lane(g.Workspace())
		if l == nil {
			l = i.made(g.Workspace()) // its reject feed goes on
		}
		if l != nil {
			l.report(g.ClientID(), r)
			return
		}
	}
	i.metrics.refused[r.Refusal].Inc()
}

// report counts a refusal, puts it in the reject feed and, at a bounded rate,
// on the client's `_errors` topic.
func (l *lane) report(client string, r rejection) {
	l.i.metrics.refused[r.Refusal].Inc()
	switch r.Refusal {
	case NoRoom, LogTimeout, LogRefused, RetainedTimeout:
		l.i.metrics.SessionLogAppendsRefused.Inc()
	}
	now := time.Now()
	l.rejects.add(Reject{Time: now, Topic: r.topic, Client: client, ClientID: r.clientID, QoS: r.qos, Refusal: r.Refusal, Detail: r.Detail})
	if r.Refusal == Shed || !l.errors.allow(client, now) {
		return
	}
	payload, err := readable(struct {
		Topic     string    `json:"topic"`
		Reason    string    `json:"reason"`
		Detail    string    `json:"detail"`
		Timestamp time.Time `json:"timestamp"`
		QoS       byte      `json:"qos"`
	}{shorten(r.topic, 1024), r.Refusal.Reason(), shorten(r.Detail, 512), now.UTC(), r.qos})
	if err != nil { // strings, numbers and a time of this century always encode
		return
	}
	v := l.notice(l.i.o.Grammar.Errors(l.workspace, client), topic.Errors, client, payload, now.UnixNano())
	l.post(func(ev *events) {
		if len(ev.notices) < maxNotices {
			ev.notices = append(ev.notices, v)
		}
	})
}

// readable is JSON without the escapes that only text inside HTML needs: people read it.
func readable(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// notice makes a value that only lives live: no Position, no row, never an
// outcome. kind and of are the two parts of its topic.
func (l *lane) notice(name, kind, of string, payload []byte, timestamp int64) *value.Value {
	return &value.Value{
		Workspace: l.workspace, Name: name, Topic: name[len(name)-len(kind)-1-len(of):],
		Timestamp: timestamp, Timed: true, Received: time.Now().UnixNano(), Quality: value.Good,
		Payload: payload, Body: payload,
		Properties: value.Properties{PayloadFormat: 1, HasPayloadFormat: true, ContentType: "application/json", HasContentType: true},
	}
}

const (
	// maxNotices bounds the errors that wait to leave.
	maxNotices = 1024
	// A client's `_errors`: so many at once, so many a second after that.
	errorsBurst, errorsRate = 20, 10
	// maxBuckets bounds the clients whose rate is remembered.
	maxBuckets = 1024
)

// limiter bounds how often each client is told.
type limiter struct {
	mu      sync.Mutex
	buckets map[string]*bucket
}

type bucket struct {
	tokens float64
	at     time.Time
}

func (m *limiter) allow(client string, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.buckets[client]
	if b == nil {
		if m.buckets == nil || len(m.buckets) >= maxBuckets {
			m.buckets = make(map[string]*bucket) // forgets a spent one too: a burst more, no more
		}
		b = &bucket{tokens: errorsBurst, at: now}
		m.buckets[client] = b
	}
	return b.take(now, errorsRate, errorsBurst)
}

// take takes a token if there is one; rate tokens a second fill it up to burst.
func (b *bucket) take(now time.Time, rate, burst float64) bool {
	b.tokens = min(burst, b.tokens+rate*now.Sub(b.at).Seconds())
	b.at = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
