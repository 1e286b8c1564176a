package model

import "maestrohub.io/uns/broker/value"

// The levels of an alarm.
const (
	Warn     = "warn"
	Critical = "critical"
)

// threshold is one limit a value should not pass: above it, or below it.
type threshold struct {
	level string
	above bool
	limit float64
}

func (h threshold) side() string {
	if h.above {
		return "above"
	}
	return "below"
}

func (h threshold) passed(f float64) bool {
	if h.above {
		return f > h.limit
	}
	return f < h.limit
}

// Alarm returns the most severe level whose threshold the value has passed, ""
// if none, and says which. A value that is exactly at a threshold has not passed
// it. One of bad quality says nothing of the process and passes none.
//
// Alarm looks at one value only: of ten values above a threshold each is an
// alarm.
func (t *Topic) Alarm(r Reading) (level, detail string) {
	if len(t.thresholds) == 0 || r.Quality.Grade() == value.Bad {
		return "", ""
	}
	f, ok := r.number, r.numeric
	if !ok {
		if len(r.Body) == 0 || typeOf(r.Body) != Number {
			return "", ""
		}
		if f, ok = parseNumber(r.Body); !ok {
			return "", ""
		}
	}
	for _, h := range t.thresholds { // the critical ones first
		if h.passed(f) {
			return h.level, "value " + excerpt(r.Body) + unit(t.Unit) + " is " + h.side() + " the " + h.level + " threshold of " + decimal(h.limit) + unit(t.Unit)
		}
	}
	return "", ""
}
