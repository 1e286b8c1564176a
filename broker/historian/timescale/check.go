package timescale

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"maestrohub.io/uns/broker/historian"
)

// Check implements historian.Historian: it commits a write, over the connection, the
// locks and, where there is one, the synchronous standby that an Append needs.
func (h *Historian) Check(ctx context.Context) error {
	if err := h.enter(); err != nil {
		return err
	}
	defer h.calls.Done()
	err := h.bounded(ctx, h.opts.WriteTimeout, "check history", func(ctx context.Context) error {
		err := h.probe(ctx)
		if judge(err) == reconnect {
			h.writes.Reset()
			err = h.probe(ctx)
		}
		return h.unavailable(err)
	})
	if errors.Is(err, historian.ErrUnavailable) {
		h.noteOutage(err)
	} else if err == nil && !h.full.Load() {
		h.noteRecovery()
	}
	return err
}

func (h *Historian) probe(ctx context.Context) error {
	s, err := h.session(ctx, h.writes)
	if err != nil {
		return err
	}
	defer s.release()
	if h.full.Load() {
		if err := h.probeSpace(ctx, s); err != nil {
			return err
		}
		h.full.Store(false)
	}
	_, err = s.Exec(ctx, h.sql.Replace(`UPDATE @schema.probe SET written = now()`), pgx.QueryExecModeExec)
	return err
}

// probeSpace asks for new blocks beside those of the rows: an update of one row finds
// room on a disk that has none.
func (h *Historian) probeSpace(ctx context.Context, s *session) error {
	tx, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	defer abandon(ctx, tx.Rollback)
	return h.run(ctx, tx, `CREATE TABLE @schema.probe_space (filler text);
		ALTER TABLE @schema.probe_space ALTER COLUMN filler SET STORAGE EXTERNAL;
		INSERT INTO @schema.probe_space SELECT repeat('x', 100000) FROM generate_series(1, 10)`)
}
