package ingest

import (
	"encoding/json"
	"time"

	"maestrohub.io/uns/broker/topic"
	"maestrohub.io/uns/broker/value"
)

// alarms knows which topics of a workspace are beyond a threshold, so that an
// alert goes out when a topic enters a level and when it returns to normal, not
// for every value. A topic that is not in it is normal: also after a start, so
// the first value beyond a threshold then raises its alert again. There is no
// hysteresis: a value that swings around a threshold alerts at each crossing,
// within the rate of the workspace. A crossing over that rate is not taken for
// announced; the topic's next value that still differs announces it.
type alarms struct {
	levels map[string]string // topic to its announced level, never ""
	rate   bucket
}

const (
	// maxAlarms bounds the topics remembered. Beyond it one of them is forgotten,
	// and announced again by its next value.
	maxAlarms = 10_000
	// A workspace's alerts: so many at once, so many a second after that.
	alertsBurst, alertsRate = 1000, 200

	// normal is the level an alert names when a topic returns from another.
	normal = "normal"
)

// crossed returns the level to announce for a topic now at level, "" for none.
func (a *alarms) crossed(name, level string, now time.Time) string {
	if level == a.levels[name] {
		return ""
	}
	if a.levels == nil {
		a.levels = make(map[string]string)
		a.rate = bucket{tokens: alertsBurst, at: now}
	}
	if !a.rate.take(now, alertsRate, alertsBurst) {
		return ""
	}
	if level == "" {
		delete(a.levels, name)
		return normal
	}
	if _, known := a.levels[name]; !known && len(a.levels) >= maxAlarms {
		for other := range a.levels {
			delete(a.levels, other)
			break
		}
	}
	a.levels[name] = level
	return level
}

// alert returns the alert a stored value raises, nil if none.
func (s *step4) alert(e *entry) *value.Value {
	l := s.lane
	level := s.alarms.crossed(e.v.Topic, e.level, time.Now())
	if level == "" {
		return nil
	}
	payload, err := readable(struct {
		Topic     string          `json:"topic"`
		Value     json.RawMessage `json:"value"`
		Level     string          `json:"level"`
		Threshold string          `json:"threshold,omitempty"`
		Timestamp time.Time       `json:"timestamp"`
	}{e.v.Topic, e.v.Body, level, e.threshold, e.v.Time()})
	if err != nil { // Body was read as JSON at admission, and timestamps are of years JSON can say
		return nil
	}
	if c := l.i.metrics.alerts[level]; c != nil {
		c.Inc()
	}
	v := l.notice(l.i.o.Grammar.Alerts(l.workspace, e.v.Topic), topic.Alerts, e.v.Topic, payload, e.v.Timestamp)
	v.Publisher, v.QoS = e.v.Publisher, 1
	return v
}
