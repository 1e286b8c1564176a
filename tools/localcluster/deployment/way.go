package deployment

import (
	"slices"
	"strings"
	"time"

	"maestrohub.io/uns/tools/localcluster/proxy"
)

// Way is a network between parts: the lanes over which they reach each other. See
// package proxy.
type Way []*proxy.Lane

// Hold lets each byte the far end sends arrive so much later; 0 ends it.
func (w Way) Hold(d time.Duration) {
	for _, p := range w {
		p.Hold(d)
	}
}

// Cut closes all connections, and new ones at once.
func (w Way) Cut() {
	for _, p := range w {
		p.Cut()
	}
}

// Freeze forwards nothing and leaves connections open.
func (w Way) Freeze() {
	for _, p := range w {
		p.Freeze()
	}
}

// Heal ends all of it.
func (w Way) Heal() {
	for _, p := range w {
		p.Heal()
	}
}

// State says what is wrong with the way, for people.
func (w Way) State() string {
	var states []string
	whole := 0
	for _, l := range w {
		switch s := l.State(); {
		case s == "whole":
			whole++
		case !slices.Contains(states, s):
			states = append(states, s)
		}
	}
	switch {
	case len(states) == 0:
		return "whole"
	case whole > 0:
		return "partly " + strings.Join(states, ", ")
	}
	return strings.Join(states, ", ")
}

// open opens a way to each of the addresses.
func open(addresses ...string) (Way, []*proxy.Proxy, error) {
	var w Way
	var all []*proxy.Proxy
	for _, a := range addresses {
		p, err := proxy.Open(a)
		if err != nil {
			closeAll(all)
			return nil, nil, err
		}
		w, all = append(w, p.Lane), append(all, p)
	}
	return w, all, nil
}

func closeAll(all []*proxy.Proxy) {
	for _, p := range all {
		p.Close()
	}
}
