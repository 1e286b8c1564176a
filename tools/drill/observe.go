package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"maestrohub.io/uns/broker/api"
)

// sight is what one replica said of the cluster at an instant.
type sight struct {
	At       time.Time            `json:"at"`
	Error    string               `json:"error,omitempty"`
	Replicas map[string]string    `json:"replicas,omitempty"` // phase by replica; "unready" if it says so itself
	Linked   bool                 `json:"linked"`
	Started  map[string]time.Time `json:"-"` // when each replica's process began
	Sessions map[string]string    `json:"-"` // replica by client id, of saved sessions that are connected
}

// observer asks for the overview again and again.
type observer struct {
	rest *rest

	mu     sync.Mutex
	sights []sight
}

// observeEvery is how often the cluster is looked at; what it costs the cluster is one
// listing of its sessions.
const observeEvery = time.Second

func (o *observer) run(ctx context.Context) {
	tick := time.NewTicker(observeEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		o.look(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (o *observer) look(ctx context.Context) {
	v, err := o.rest.overview(ctx)
	s := sight{At: time.Now(), Replicas: map[string]string{}, Started: map[string]time.Time{}, Sessions: map[string]string{}}
	if err != nil {
		s.Error = err.Error()
	} else {
		s.Linked = unlinked(v) == ""
		for _, r := range v.Replicas {
			s.Replicas[r.Replica] = r.Phase
			if r.Report != nil {
				s.Started[r.Replica] = r.Report.Started
			}
			if r.Report == nil || !r.Report.Ready {
				s.Replicas[r.Replica] = "unready"
			}
		}
		if v.Shared != nil {
			for _, session := range v.Shared.Sessions {
				s.Sessions[session.ClientID] = session.Replica
			}
		}
	}
	o.mu.Lock()
	o.sights = append(o.sights, s)
	o.mu.Unlock()
}

// unlinked says what keeps the cluster from being whole: as many members as there should
// be, every one of which serves, is ready and has all its links. "" if it is.
func unlinked(v *api.Overview) string {
	for _, r := range v.Replicas {
		switch {
		case r.Report == nil:
			return fmt.Sprintf("%s cannot reach %s", v.Replica, r.Replica)
		case !r.Report.Ready:
			return fmt.Sprintf("%s is not ready (%s)", r.Replica, r.Report.Reason)
		case r.Phase != "serving":
			return fmt.Sprintf("%s is %s", r.Replica, r.Phase)
		case r.Report.LinksUp < r.Report.LinksExpected:
			return fmt.Sprintf("%s has %d of %d links", r.Replica, r.Report.LinksUp, r.Report.LinksExpected)
		}
	}
	if want := max(v.Expected, 1); len(v.Replicas) < want {
		return fmt.Sprintf("%d of %d replicas are members", len(v.Replicas), want)
	}
	return ""
}

// busiest is the replica with most of the devices among the saved sessions last seen, and
// how many members there are.
func (o *observer) busiest(devices []string) (replica string, members int) {
	all := o.all()
	for _, s := range slices.Backward(all) {
		count := map[string]int{}
		for _, id := range devices {
			if r := s.Sessions[id]; r != "" {
				count[r]++
			}
		}
		for r, n := range count {
			if n > count[replica] || n == count[replica] && r < replica {
				replica = r
			}
		}
		if replica != "" {
			return replica, len(s.Replicas)
		}
	}
	return "", 0
}

// whole reports whether the last look, after an instant, found every replica serving and
// linked, as many as there were.
func (o *observer) whole(since time.Time, members int) bool {
	all := o.all()
	if len(all) == 0 {
		return false
	}
	last := all[len(all)-1]
	return last.At.After(since) && last.Error == "" && last.Linked && len(last.Replicas) >= members
}

// ranOn says which of the replicas that were to be ended since an instant, and serve now,
// was not; "" if all were.
func (o *observer) ranOn(replicas []string, since time.Time) string {
	before, after := map[string]time.Time{}, map[string]time.Time{}
	for _, s := range o.all() {
		for replica, began := range s.Started {
			if s.At.Before(since) {
				before[replica] = began
			} else {
				after[replica] = began
			}
		}
	}
	for _, r := range replicas {
		if began := before[r]; !began.IsZero() && began.Equal(after[r]) {
			return fmt.Sprintf("%s was not ended: it runs since %s", r, began.Local().Format(time.TimeOnly))
		}
	}
	return ""
}

func (o *observer) all() []sight {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]sight(nil), o.sights...)
}
