package timescale

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// The sweeper of each replica looks every sweepInterval; the one that gets the lock
// makes the partitions of the days to come and removes those that are too old.

// daysAhead is how many days after today have their partition made ahead, so that no
// Append at midnight makes it.
const daysAhead = 2

// sweepTimeout bounds one sweep, removalTimeout each statement that removes: while
// one waits for a long reader, a backup above all, it keeps new partitions from being
// attached. It is tried again in the next sweep.
const (
	sweepTimeout   = 10 * time.Minute
	removalTimeout = 3 * time.Second
)

func (h *Historian) sweeper(ctx context.Context) {
	defer h.calls.Done()
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		if _, err := h.sweep(ctx); err != nil && ctx.Err() == nil {
			h.log.Warn("embedded broker: history retention failed, trying again later", "error", err, "again_in", sweepInterval)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// sweep does one round, unless another replica is at it. It has a connection of its
// own: it may take longer than a statement of the pools may.
func (h *Historian) sweep(ctx context.Context) (mine bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	s, err := h.session(ctx, h.writes)
	if err != nil {
		return false, err
	}
	known := s.known
	s.release()

	conn, err := h.connect(ctx)
	if err != nil {
		return false, err
	}
	defer abandon(ctx, conn.Close) // which lets go of the lock
	if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", pgx.QueryExecModeExec, h.lockKey(lockSweep)).Scan(&mine); err != nil || !mine {
		return false, err
	}
	if *known.storage.Load() == hypertable {
		if h.ownRetention.Load() {
			h.applyPolicies(ctx, conn)
		}
		return true, h.dropChunks(ctx, conn)
	}
	now := time.Now()
	var times []int64
	for day := range daysAhead + 1 {
		times = append(times, microsOf(now.AddDate(0, 0, day)))
	}
	if err := h.makePartitions(ctx, conn, known, times); err != nil {
		return true, err
	}
	return true, h.dropPartitions(ctx, conn, known, now)
}

// connect makes a connection outside the pools.
func (h *Historian) connect(ctx context.Context) (*pgx.Conn, error) {
	c := h.writes.Config()
	if c.BeforeConnect != nil {
		if err := c.BeforeConnect(ctx, c.ConnConfig); err != nil {
			return nil, err
		}
	}
	conn, err := pgx.ConnectConfig(ctx, c.ConnConfig)
	if err != nil {
		return nil, err
	}
	if err := h.greet(ctx, conn, sweepTimeout); err != nil {
		_ = conn.Close(ctx)
		return nil, err
	}
	return conn, nil
}

// dropPartitions removes partitions whose last moment is older than MaxAge. They are
// detached first, which does not stand in the way of writes, then dropped. A removal
// that was interrupted is gone on with.
func (h *Historian) dropPartitions(ctx context.Context, conn *pgx.Conn, known *knowledge, now time.Time) error {
	if h.opts.MaxAge <= 0 {
		return nil
	}
	if _, err := conn.Exec(ctx, h.sql.Replace(`UPDATE @schema.value_partition SET dropping = true WHERE upper <= $1 AND NOT dropping`),
		pgx.QueryExecModeExec, now.Add(-h.opts.MaxAge)); err != nil {
		return err
	}
	all, err := h.listPartitions(ctx, conn)
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "SELECT set_config('statement_timeout', $1, false)", pgx.QueryExecModeExec, interval(removalTimeout)); err != nil {
		return err
	}
	dropped := 0
	for _, p := range all {
		if !p.dropping {
			continue
		}
		if err := h.dropPartition(ctx, conn, p.name); err != nil {
			return fmt.Errorf("remove the partition %s, which a long transaction may be reading: %w", p.name, err)
		}
		dropped++
	}
	if dropped > 0 {
		known.partitions.forget()
		h.log.Info("embedded broker: removed history by its retention", "partitions", dropped, "until", now.Add(-h.opts.MaxAge).Format(time.RFC3339))
	}
	return nil
}

func (h *Historian) dropPartition(ctx context.Context, conn *pgx.Conn, name string) error {
	var attached, pending bool
	err := conn.QueryRow(ctx, `SELECT count(*) > 0, coalesce(bool_or(inhdetachpending), false) FROM pg_inherits
		WHERE inhparent = $1::regclass AND inhrelid = to_regclass($2)`,
		pgx.QueryExecModeExec, h.opts.Schema+".value", h.opts.Schema+"."+name).Scan(&attached, &pending)
	if err != nil {
		return err
	}
	if attached {
		how := "CONCURRENTLY"
		if pending {
			how = "FINALIZE"
		}
		if err := h.run(ctx, conn, fmt.Sprintf(`ALTER TABLE @schema.value DETACH PARTITION @schema.%s %s`, name, how)); err != nil {
			return err
		}
	}
	return h.run(ctx, conn, fmt.Sprintf(`DROP TABLE IF EXISTS @schema.%[1]s; DELETE FROM @schema.value_partition WHERE name = '%[1]s'`, name))
}
