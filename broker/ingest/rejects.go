package ingest

import (
	"strings"
	"sync"
	"time"
)

// Reject is one refused publish in a workspace's reject feed.
type Reject struct {
	// Sequence numbers the refusals of a workspace from 1 without gaps, for the
	// life of this process: a gap between two answers is what the feed dropped.
	Sequence uint64
	Time     time.Time
	// Topic is the name as published, cut to 1 KiB.
	Topic string
	// Client is the API client, ClientID the MQTT client identifier, empty for a
	// REST write.
	Client, ClientID string
	QoS              byte
	Refusal          Refusal
	// Detail is cut to 512 bytes.
	Detail string
}

// Rejects returns up to limit refusals of a workspace's clients after since,
// oldest first; since is the last Sequence of the page before, 0 at first. The
// feed is in memory and keeps the newest RejectsKept.
func (i *Ingest) Rejects(workspace string, since uint64, limit int) []Reject {
	if l, ok := i.lanes.Load(workspace); ok {
		return l.(*lane).rejects.page(since, limit)
	}
	return nil
}

// rejects is a ring of the newest refusals, grown as they come.
type rejects struct {
	keep int

	mu   sync.Mutex
	ring []Reject // ring[s % keep] holds sequence s
	last uint64
}

func (r *rejects) add(reject Reject) {
	// Publish does not own the name it was given.
	reject.Topic, reject.Detail = strings.Clone(shorten(reject.Topic, 1024)), shorten(reject.Detail, 512)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	reject.Sequence = r.last
	if len(r.ring) < r.keep {
		r.ring = append(r.ring, reject)
		return
	}
	r.ring[(r.last-1)%uint64(r.keep)] = reject
}

func (r *rejects) page(since uint64, limit int) []Reject {
	r.mu.Lock()
	defer r.mu.Unlock()
	from := max(since+1, r.last-uint64(len(r.ring))+1)
	if from > r.last || limit <= 0 || since == ^uint64(0) {
		return nil
	}
	n := min(uint64(limit), r.last-from+1)
	page := make([]Reject, 0, n)
	for s := from; s < from+n; s++ {
		page = append(page, r.ring[(s-1)%uint64(r.keep)])
	}
	return page
}

// shorten cuts s to at most n bytes, at the start of a character.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n]
}
