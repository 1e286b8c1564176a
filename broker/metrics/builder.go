package metrics

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

const prefix = "maestrohub_"

// label is a label's name and every value it may have; no values: whatever its user counts.
type label struct {
	name   string
	values []string
}

// row is what the reference says of one metric.
type row struct {
	name, kind, help string
	labels           []label
}

// builder makes and registers metrics; a name or label that is wrong panics in New, hence in every test.
type builder struct {
	registry *prometheus.Registry
	rows     []row
}

func (b *builder) add(c prometheus.Collector, name, kind, help string, labels ...label) {
	b.registry.MustRegister(c)
	b.rows = append(b.rows, row{prefix + name, kind, help, labels})
}

func (b *builder) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + name, Help: help})
	b.add(c, name, "counter", help)
	return c
}

func (b *builder) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + name, Help: help})
	b.add(g, name, "gauge", help)
	return g
}

// gauges is a gauge for each value of the labels, which its user sets.
func (b *builder) gauges(name, help string, labels ...label) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + name, Help: help}, names(labels))
	b.add(v, name, "gauge", help, labels...)
	return v
}

func (b *builder) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: buckets})
	b.add(h, name, "histogram", help)
	return h
}

// counters is a counter for each combination of label values; a single label's values exist from the start.
func (b *builder) counters(name, help string, labels ...label) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, names(labels))
	if len(labels) == 1 {
		for _, value := range labels[0].values {
			v.WithLabelValues(value)
		}
	}
	b.add(v, name, "counter", help, labels...)
	return v
}

func (b *builder) histograms(name, help string, buckets []float64, labels ...label) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: buckets}, names(labels))
	b.add(v, name, "histogram", help, labels...)
	return v
}

func names(labels []label) []string {
	var n []string
	for _, l := range labels {
		n = append(n, l.name)
	}
	return n
}

// ByType is a counter for each MQTT control packet type, indexed by its number (1 CONNECT … 15 AUTH); 0
// counts what has no valid type.
type ByType [16]prometheus.Counter

func (b *builder) byType(name, help string) ByType {
	types := label{"type", []string{
		"invalid", "connect", "connack", "publish", "puback", "pubrec", "pubrel", "pubcomp",
		"subscribe", "suback", "unsubscribe", "unsuback", "pingreq", "pingresp", "disconnect", "auth",
	}}
	v := b.counters(name, help, types)
	var by ByType
	for i, t := range types.values {
		by[i] = v.WithLabelValues(t)
	}
	return by
}

// Reading is a gauge or a counter whose value someone keeps anyway and gives when asked; until then it is
// absent.
type Reading struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read atomic.Pointer[func() (float64, bool)]
}

// From says where the value comes from: read is called at every scrape, from any goroutine.
func (r *Reading) From(read func() float64) {
	r.FromKnown(func() (float64, bool) { return read(), true })
}

// FromKnown is From for a value that is not always known; it is absent where read returns false.
func (r *Reading) FromKnown(read func() (float64, bool)) { r.read.Store(&read) }

// Describe implements prometheus.Collector.
func (r *Reading) Describe(ch chan<- *prometheus.Desc) { ch <- r.desc }

// Collect implements prometheus.Collector.
func (r *Reading) Collect(ch chan<- prometheus.Metric) {
	read := r.read.Load()
	if read == nil {
		return
	}
	if v, known := (*read)(); known {
		ch <- prometheus.MustNewConstMetric(r.desc, r.kind, v)
	}
}

func (b *builder) reading(name, help string) *Reading {
	r := &Reading{desc: prometheus.NewDesc(prefix+name, help, nil, nil), kind: prometheus.GaugeValue}
	b.add(r, name, "gauge", help)
	return r
}

// count is a Reading of a counter.
func (b *builder) count(name, help string) *Reading {
	r := &Reading{desc: prometheus.NewDesc(prefix+name, help, nil, nil), kind: prometheus.CounterValue}
	b.add(r, name, "counter", help)
	return r
}

// readings is one Reading for each value of the label, in its order.
func (b *builder) readings(name, help string, l label) []*Reading {
	var all []*Reading
	for _, value := range l.values {
		r := &Reading{desc: prometheus.NewDesc(prefix+name, help, nil, prometheus.Labels{l.name: value}), kind: prometheus.GaugeValue}
		b.registry.MustRegister(r)
		all = append(all, r)
	}
	b.rows = append(b.rows, row{prefix + name, "gauge", help, []label{l}})
	return all
}

// Reference is every metric as a Markdown table: name, type, labels with their values, meaning.
func Reference() string {
	rows := slices.Clone(New().rows)
	slices.SortStableFunc(rows, func(a, b row) int { return strings.Compare(a.name, b.name) })
	var b strings.Builder
	b.WriteString("| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n")
	for _, r := range rows {
		var labels []string
		for _, l := range r.labels {
			text := "`" + l.name + "`"
			if len(l.values) > 0 {
				text += ": " + strings.Join(l.values, ", ")
			}
			labels = append(labels, text)
		}
		if labels == nil {
			labels = []string{"–"}
		}
		b.WriteString("| `" + r.name + "` | " + r.kind + " | " + strings.Join(labels, "; ") + " | " + r.help + " |\n")
	}
	return b.String()
}
