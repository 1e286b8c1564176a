package model

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"maestrohub.io/uns/broker/topic"
	"maestrohub.io/uns/broker/value"
)

// MaxPayloadBytes is the largest maxPayloadBytes: the most an MQTT packet can
// carry.
const MaxPayloadBytes = 268_435_455

// binding reads a binding, and where its filter stands; nil if that is wrong.
func (p *parser) binding(n *yaml.Node, key string) (t *Topic, filterAt *yaml.Node) {
	t = newTopic()
	var alerts *yaml.Node
	var alertsKey string
	qualityAt := n
	p.mapping(n, key,
		field{name: "topic", required: true, read: func(n *yaml.Node, key string) { t.Filter, filterAt = p.filter(n, key), n }},
		field{name: "schema", read: func(n *yaml.Node, key string) {
			name, ok := p.string(n, key)
			if !ok {
				return
			}
			s, ok := p.schemas[name]
			if !ok {
				p.fail(n, key, "%q is not one of the schemas", cut(name, 64))
				t.Type = unknown
				return
			}
			t.Schema = name
			s.apply(t)
		}},
		field{name: "retain", read: func(n *yaml.Node, key string) { t.Retain, _ = p.bool(n, key) }},
		field{name: "minQuality", read: func(n *yaml.Node, key string) { t.MinQuality, qualityAt = p.quality(n, key), n }},
		field{name: "alerts", read: func(n *yaml.Node, key string) { alerts, alertsKey = n, key }},
		field{name: "maxPayloadBytes", read: func(n *yaml.Node, key string) {
			t.MaxPayloadBytes, _ = p.whole(n, key, 1, MaxPayloadBytes)
		}},
	)
	if t.Type == Opaque && t.MinQuality != value.Bad {
		p.fail(qualityAt, key+".minQuality", "schema %s is opaque: its values have no quality", t.Schema)
	}
	if alerts != nil {
		p.alerts(alerts, alertsKey, t)
	}
	if t.Filter == "" {
		return nil, nil
	}
	return t, filterAt
}

func (p *parser) filter(n *yaml.Node, key string) string {
	filter, ok := p.string(n, key)
	if !ok {
		return ""
	}
	if strings.HasPrefix(filter, "$share/") {
		p.fail(n, key, "%q is a shared subscription: a binding is for the topics themselves", cut(filter, 64))
		return ""
	}
	if err := topic.ValidateFilter(filter); err != nil {
		p.fail(n, key, "%v", err)
		return ""
	}
	if topic.Reserved(filter) {
		p.fail(n, key, "%q begins with a reserved level (_ingress, _alerts, _errors): no value has such a topic", cut(filter, 64))
		return ""
	}
	return filter
}

func (p *parser) quality(n *yaml.Node, key string) value.Quality {
	name, ok := p.string(n, key)
	if !ok {
		return value.Bad
	}
	q, ok := qualityNamed(name)
	if !ok {
		p.fail(n, key, "%q must be good, uncertain or bad", cut(name, 64))
	}
	return q
}

// alerts reads the thresholds of a binding and holds them against each other
// and the schema's hard range.
func (p *parser) alerts(n *yaml.Node, key string, t *Topic) {
	limits := map[string]*float64{} // by level and side
	where := map[string]*yaml.Node{}
	level := func(name string) field {
		return field{name: name, read: func(n *yaml.Node, key string) {
			side := func(side string) field {
				return field{name: side, read: func(n *yaml.Node, key string) {
					if f, ok := p.number(n, key); ok {
						limits[name+"."+side], where[name+"."+side] = &f, n
					}
				}}
			}
			p.mapping(n, key, side("above"), side("below"))
		}}
	}
	before := p.failed
	p.mapping(n, key, level(Warn), level(Critical))
	switch {
	case p.failed > before:
		return
	case len(limits) == 0:
		p.fail(n, key, "names no threshold: warn or critical, above or below")
		return
	case t.Type == unknown:
		return
	case t.Type != Number && t.Type != Integer:
		if t.Schema != "" {
			p.fail(n, key, "thresholds need a schema of type number or integer, %s is of type %s", t.Schema, t.Type)
		} else {
			p.fail(n, key, "thresholds need a schema of type number or integer, this binding has none")
		}
		return
	}
	ordered := func(low, high string, equal bool) {
		a, b := limits[low], limits[high]
		if a == nil || b == nil || *a < *b || equal && *a == *b {
			return
		}
		than := "below"
		if equal {
			than = "at or below"
		}
		p.fail(where[low], key+"."+low, "%s must be %s %s (%s)", decimal(*a), than, high, decimal(*b))
	}
	ordered("critical.below", "warn.below", true)
	ordered("warn.below", "warn.above", false)
	ordered("warn.above", "critical.above", true)
	if limits["warn.below"] == nil || limits["warn.above"] == nil {
		ordered("critical.below", "critical.above", false)
		ordered("critical.below", "warn.above", false)
		ordered("warn.below", "critical.above", false)
	}
	for _, name := range []string{Critical, Warn} {
		for _, side := range []string{"above", "below"} {
			limit := limits[name+"."+side]
			if limit == nil {
				continue
			}
			h := threshold{level: name, above: side == "above", limit: *limit}
			if h.above && h.limit >= t.max || !h.above && h.limit <= t.min {
				p.fail(where[name+"."+side], key+"."+name+"."+side, "%s is never passed: schema %s allows no value %s it", decimal(h.limit), t.Schema, side)
			}
			t.thresholds = append(t.thresholds, h)
		}
	}
	t.Alerts = true
}
