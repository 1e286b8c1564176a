package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"maestrohub.io/uns/tools/mqttload/wire"
)

var errTimeout = errors.New("timed out")

// await turns the loop until done says so. It gives up, wrapping errTimeout and
// naming what it waited for, after the limit, and at once when failed returns an
// error.
func await(ctx context.Context, l *wire.Loop, limit time.Duration, what string, failed func() error, done func() bool) error {
	end := l.Clock() + int64(limit)
	for !done() {
		if err := failed(); err != nil {
			return fmt.Errorf("waited for %s: %w", what, err)
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("waited for %s: %w", what, err)
		}
		now := l.Clock()
		if now >= end {
			return fmt.Errorf("waited %s for %s: %w", limit, what, errTimeout)
		}
		if err := l.Turn(min(end, now+int64(100*time.Millisecond))); err != nil {
			return err
		}
	}
	return nil
}
