package ingest

import (
	"github.com/prometheus/client_golang/prometheus"

	"maestrohub.io/uns/broker/metrics"
)

// counters are the metrics this package moves, looked up once.
type counters struct {
	*metrics.Metrics
	refused [256]prometheus.Counter
	alerts  map[string]prometheus.Counter
}

func newCounters(m *metrics.Metrics) counters {
	if m == nil {
		m = metrics.New()
	}
	c := counters{Metrics: m, alerts: make(map[string]prometheus.Counter)}
	for _, r := range Refusals() {
		c.refused[r] = m.ValuesRefused.WithLabelValues(r.Reason())
	}
	for _, level := range []string{"warn", "critical"} {
		c.alerts[level] = m.AlertsPublished.WithLabelValues(level)
	}
	return c
}

// readings says what is on its way, when somebody asks.
func (i *Ingest) readings() {
	i.metrics.ValuesPending.From(func() float64 { return float64(i.Outstanding()) })
	i.metrics.ValuesPendingBytes.From(func() float64 { return float64(i.sum(func(l *lane) int { return l.used })) })
}

// sum adds up what all lanes say, each under its lock.
func (i *Ingest) sum(of func(*lane) int) (n int) {
	i.lanes.Range(func(_, v any) bool {
		l := v.(*lane)
		l.mu.Lock()
		n += of(l)
		l.mu.Unlock()
		return true
	})
	return n
}
