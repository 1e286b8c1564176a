package pebble

import (
	"errors"
	"fmt"

	crdb "github.com/cockroachdb/pebble/v2"
)

// events ends the generation on what Pebble reports in the background. Pebble
// would try a failed flush again at once and without end; the supervisor tries
// again when a test write says the cause is gone.
func (g *generation) events() *crdb.EventListener {
	l := &crdb.EventListener{
		BackgroundError: func(err error) {
			if !errors.Is(err, crdb.ErrCancelledCompaction) {
				g.fail(err)
			}
		},
		DataCorruption: func(info crdb.DataCorruptionInfo) {
			err := info.Details
			if !damaged(err) {
				err = fmt.Errorf("%w: %w", errDamagedStore, err)
			}
			g.fail(fmt.Errorf("%s: %w", info.Path, err))
		},
		WriteStallBegin: func(info crdb.WriteStallBeginInfo) {
			g.log.Warn("embedded broker: history writes wait for the disk", "reason", info.Reason)
		},
		DiskSlow: func(info crdb.DiskSlowInfo) {
			g.log.Warn("embedded broker: the history's disk is slow", "operation", info.OpType.String(),
				"file", info.Path, "seconds", info.Duration.Seconds())
		},
	}
	l.EnsureDefaults(&pebbleLog{g})
	return l
}

// pebbleLog takes Pebble's own log. Its routine messages are of use to nobody who
// runs a broker; its errors reach the operator through the generation's failure.
type pebbleLog struct{ g *generation }

func (l *pebbleLog) Infof(string, ...any) {}

func (l *pebbleLog) Errorf(format string, args ...any) {
	if !l.g.isFailed() {
		l.g.log.Warn("embedded broker: history store", "reason", fmt.Sprintf(format, args...))
	}
}

// Fatalf is called where Pebble cannot go on: by contract it ends the process. It
// returns instead, the generation fenced; see fencedFS.
func (l *pebbleLog) Fatalf(format string, args ...any) { l.g.fail(fatalError(format, args)) }

// fatalError keeps the error among args, so that its kind can be told.
func fatalError(format string, args []any) error {
	message := fmt.Sprintf(format, args...)
	for _, arg := range args {
		if err, ok := arg.(error); ok {
			return &fatal{message, err}
		}
	}
	return errors.New(message)
}

type fatal struct {
	message string
	err     error
}

func (f *fatal) Error() string { return f.message }

func (f *fatal) Unwrap() error { return f.err }
