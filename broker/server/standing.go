package server

import (
	"context"
	"errors"
	"time"

	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/state"
)

// conflictPatience is for how long a conflict is looked into that no read explains:
// longer than a read has been seen to lag. Then the record counts as another's, which
// costs the device a connection and nothing else.
const conflictPatience = 5 * time.Second

// standing finds out whose write it is that one of this connection's over revision has met: an
// earlier one of its own, whose outcome it was never told, or that of who has taken over.
// Only the record says, by its writer: who takes over begins with the very content it
// has found. own reports that the record is still this connection's, and at which revision.
//
// A read may lag. One that shows what the write was made over proves nothing: there may
// be a later record, or the conflict was the word of a leader that had been deposed; the
// write is made again, after a pause. met is when the first conflict since a write that
// landed was met; zero before that.
func (c *connection) standing(ctx context.Context, b state.Bucket, revision uint64, writer func([]byte) (cluster.ID, error), met *time.Time) (at uint64, own bool) {
	if met.IsZero() {
		*met = time.Now()
	}
	c.lock.Lock()
	self := c.held.owner.Connection
	c.lock.Unlock()
	for {
		r, err := b.Get(ctx, c.client.id)
		switch {
		case err == nil && r.Revision > revision:
			by, err := writer(r.Value)
			return r.Revision, err == nil && by == self
		case errors.Is(err, state.ErrNotFound) && r.Revision > revision: // ended
			return 0, false
		case time.Since(*met) > conflictPatience:
			return 0, false
		}
		select {
		case <-ctx.Done():
			return 0, false
		case <-time.After(writePause):
		}
		if err == nil && r.Revision == revision {
			return revision, true
		}
	}
}

func cursorWriter(record []byte) (by cluster.ID, err error) {
	c, err := cluster.DecodeCursor(record)
	if err == nil {
		by = c.Writer
	}
	return by, err
}

func receivedWriter(record []byte) (by cluster.ID, err error) {
	r, err := cluster.DecodeReceived(record)
	if err == nil {
		by = r.Writer
	}
	return by, err
}

func sessionWriter(record []byte) (by cluster.ID, err error) {
	s, err := cluster.DecodeSession(record)
	if err == nil {
		by = s.Writer
	}
	return by, err
}
