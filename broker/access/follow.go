package access

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	"maestrohub.io/uns/broker/state"
)

// follow keeps up with the bucket and tells the readers of OnChange which clients
// changed.
func (a *Access) follow(watch state.Watch, ready chan struct{}) {
	defer close(a.ended)
	defer a.endReaders()
	var missing map[string]bool // after a Lost: not repeated yet
	for u := range watch.Updates() {
		switch {
		case u.Lost:
			missing = a.beginAgain()
		case u.Ready:
			a.endAgain(missing)
			missing = nil
			if ready != nil {
				close(ready)
				ready = nil
			}
		case u.Key == tokenKeyKey:
			// A damaged or deleted key changes nothing: the one there is
			// goes on signing until the next start.
			if k, err := decodeTokenKeys(u.Value); err == nil {
				a.tokenKeys.Store(k)
			}
		default:
			id, ok := strings.CutPrefix(u.Key, clientKeys)
			if !ok {
				continue
			}
			delete(missing, id)
			if u.Deleted {
				a.deleted(id, u.Revision)
			} else {
				a.changed(id, u.Record)
			}
		}
	}
}

// beginAgain returns the clients that are known, which the watch repeats now. What it
// repeats counts whatever its revision: a bucket that was restored counts anew.
func (a *Access) beginAgain() (missing map[string]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	missing = make(map[string]bool, len(a.clients))
	for id, k := range a.clients {
		missing[id] = true
		again := *k
		again.revision = 0
		a.clients[id] = &again
	}
	clear(a.gone)
	a.forgetStrangers()
	return missing
}

// endAgain drops the clients that were not repeated, but for those written here since.
func (a *Access) endAgain(missing map[string]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id := range missing {
		if k := a.clients[id]; k != nil && k.revision == 0 {
			a.keep(id, nil)
		}
		a.tell(id)
	}
}

// changed takes in a client's change.
func (a *Access) changed(id string, record state.Record) {
	a.learn(id, record)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tell(id)
}

// deleted takes in that a client was deleted at a revision, which the watch told of or
// this replica wrote: what was before is not taken in any more.
func (a *Access) deleted(id string, revision uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forgetStrangers()
	if k := a.clients[id]; k != nil && k.revision < revision {
		a.keep(id, nil)
	}
	now := time.Now()
	maps.DeleteFunc(a.gone, func(_ string, d deletion) bool { return now.Sub(d.at) >= state.TombstoneAge })
	if revision > a.gone[id].revision {
		a.gone[id] = deletion{revision, now}
	}
	a.tell(id)
}

// forgetStrangers: somebody was deleted, who may be one of them. mu is held.
func (a *Access) forgetStrangers() {
	clear(a.strangers)
	a.deletions++
}

// tell tells the readers of OnChange of a client. mu is held.
func (a *Access) tell(id string) {
	for r := range a.readers {
		r.add(id)
	}
}

// changes is one reader of OnChange: the ids it was not told yet.
type changes struct {
	wake chan struct{} // holds a token while there is something to tell
	end  chan struct{}

	mu      sync.Mutex
	waiting map[string]struct{}
}

func (c *changes) add(id string) {
	c.mu.Lock()
	c.waiting[id] = struct{}{}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// OnChange gives the id of every client that changed, was deleted, or may have
// been, until ctx is done or a is closed; then it is closed. A reader that is slow
// is told each id once for all its changes, and none is missed.
func (a *Access) OnChange(ctx context.Context) <-chan string {
	out := make(chan string)
	c := &changes{wake: make(chan struct{}, 1), end: make(chan struct{}), waiting: map[string]struct{}{}}
	a.mu.Lock()
	if a.readers == nil {
		a.mu.Unlock()
		close(out)
		return out
	}
	a.readers[c] = struct{}{}
	a.mu.Unlock()
	go func() {
		defer close(out)
		defer func() {
			a.mu.Lock()
			delete(a.readers, c)
			a.mu.Unlock()
		}()
		for {
			select {
			case <-c.wake:
			case <-ctx.Done():
				return
			case <-c.end:
				return
			}
			c.mu.Lock()
			waiting := c.waiting
			c.waiting = map[string]struct{}{}
			c.mu.Unlock()
			for id := range waiting {
				select {
				case out <- id:
				case <-ctx.Done():
					return
				case <-c.end:
					return
				}
			}
		}
	}()
	return out
}

// endReaders ends every OnChange; no further one is accepted.
func (a *Access) endReaders() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for r := range a.readers {
		close(r.end)
	}
	a.readers = nil
}
