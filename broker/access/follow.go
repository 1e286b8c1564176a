package access

import (
	"context"
	"strings"
	"sync"

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
			a.mu.Lock()
			missing = map[string]bool{}
			for id := range a.clients {
				missing[id] = true
			}
			a.mu.Unlock()
		case u.Ready:
			for id := range missing {
				a.changed(id, nil)
			}
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
				a.changed(id, nil)
			} else {
				a.changed(id, &u.Record)
			}
		}
	}
}

// changed takes in a client's change; nil: it was deleted.
func (a *Access) changed(id string, record *state.Record) {
	if record != nil {
		a.learn(id, *record)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if record == nil {
		a.keep(id, nil)
		delete(a.gone, id)
	}
	a.tell(id)
}

// removed takes in a deletion this replica wrote: what the watch says of before it is
// not taken in any more.
func (a *Access) removed(id string, revision uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keep(id, nil)
	a.gone[id] = revision
	a.tell(id)
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
