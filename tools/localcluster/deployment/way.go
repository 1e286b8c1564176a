package deployment

import (
	"strings"
	"time"

	"maestrohub.io/uns/tools/localcluster/proxy"
)

// Way is a network between two parts: the proxies over which one reaches the
// other. See package proxy.
type Way []*proxy.Proxy

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
	for _, p := range w {
		if s := p.State(); len(states) == 0 || states[len(states)-1] != s {
			states = append(states, s)
		}
	}
	return strings.Join(states, ", ")
}

func (w Way) close() {
	for _, p := range w {
		p.Close()
	}
}

// open opens a way to each of the addresses.
func open(addresses ...string) (Way, error) {
	var w Way
	for _, a := range addresses {
		p, err := proxy.Open(a)
		if err != nil {
			w.close()
			return nil, err
		}
		w = append(w, p)
	}
	return w, nil
}
