package timescale

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// chunkInterval is the time one chunk or partition holds.
	chunkInterval = 24 * time.Hour
	// compressAfter is the age from which chunks are compressed: values rarely come
	// later, and a late one is stored in a compressed chunk too, only more slowly.
	compressAfter = 7 * 24 * time.Hour
)

// makeHypertable turns the new, empty table of rows into a hypertable.
func (h *Historian) makeHypertable(ctx context.Context, tx pgx.Tx, extension string) error {
	var ignored string
	return tx.QueryRow(ctx, `SELECT `+extension+`.create_hypertable($1::regclass, 'time',
		chunk_time_interval => $2::interval, create_default_indexes => false)::text`,
		pgx.QueryExecModeExec, h.opts.Schema+".value", interval(chunkInterval)).Scan(&ignored)
}

// applyPolicies makes compression and retention of the hypertable what the options
// say. A failure is logged, not returned: values are stored and read without them,
// and the sweeper retries. Under TimescaleDB's Apache license there are no
// policies: retention is then the sweeper's.
func (h *Historian) applyPolicies(ctx context.Context, conn *pgx.Conn) {
	h.ownRetention.Store(false)
	err := h.policies(ctx, conn)
	var refused *pgconn.PgError
	switch {
	case err == nil:
	case errors.As(err, &refused) && refused.Code == "0A000":
		h.ownRetention.Store(true)
		h.log.Info("embedded broker: this TimescaleDB has no policies, history is not compressed", "reason", refused.Message)
	default:
		h.ownRetention.Store(true)
		h.log.Warn("embedded broker: history policies could not be set", "error", err)
	}
}

func (h *Historian) policies(ctx context.Context, conn *pgx.Conn) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer abandon(ctx, tx.Rollback)
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", pgx.QueryExecModeExec, h.lockKey(lockSetup)); err != nil {
		return err
	}
	extension, err := h.extension(ctx, tx)
	if err != nil {
		return err
	}
	if extension == "" {
		return errors.New("the extension is gone")
	}
	set, err := h.policy(ctx, tx, "policy_compression", "compress_after")
	if err != nil {
		return err
	}
	if set == nil {
		if err := h.run(ctx, tx, `ALTER TABLE @schema.value SET (timescaledb.compress,
			timescaledb.compress_segmentby = 'topic_id', timescaledb.compress_orderby = 'time, nanos, identity')`); err != nil {
			return err
		}
		if err := h.callPolicy(ctx, tx, extension+`.add_compression_policy($1::regclass, $2::interval, if_not_exists => true)`, compressAfter); err != nil {
			return err
		}
	}
	if set, err = h.policy(ctx, tx, "policy_retention", "drop_after"); err != nil {
		return err
	}
	if set != nil && *set != h.opts.MaxAge {
		if err := h.run(ctx, tx, `SELECT `+extension+`.remove_retention_policy('@schema.value'::regclass, if_exists => true)`); err != nil {
			return err
		}
		set = nil
	}
	if set == nil && h.opts.MaxAge > 0 {
		if err := h.callPolicy(ctx, tx, extension+`.add_retention_policy($1::regclass, $2::interval, if_not_exists => true)`, h.opts.MaxAge); err != nil {
			return err
		}
	}
	return tx.Commit(ctx)
}

// policy returns the age of a policy of the table of rows, nil if it is not set.
func (h *Historian) policy(ctx context.Context, tx pgx.Tx, name, key string) (*time.Duration, error) {
	var seconds *float64
	err := tx.QueryRow(ctx, `SELECT extract(epoch FROM (config->>$1)::interval)::float8 FROM timescaledb_information.jobs
		WHERE proc_name = $2 AND hypertable_schema = $3 AND hypertable_name = 'value'`,
		pgx.QueryExecModeExec, key, name, h.opts.Schema).Scan(&seconds)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the job %s: %w", name, err)
	}
	age := time.Duration(0)
	if seconds != nil {
		age = time.Duration(*seconds * float64(time.Second))
	}
	return &age, nil
}

func (h *Historian) callPolicy(ctx context.Context, tx pgx.Tx, call string, age time.Duration) error {
	var job int
	return tx.QueryRow(ctx, `SELECT `+call, pgx.QueryExecModeExec, h.opts.Schema+".value", interval(age)).Scan(&job)
}

// dropChunks removes what is too old from a hypertable without a retention policy.
func (h *Historian) dropChunks(ctx context.Context, conn *pgx.Conn) error {
	if h.opts.MaxAge <= 0 || !h.ownRetention.Load() {
		return nil
	}
	extension, err := h.extension(ctx, conn)
	if err != nil || extension == "" {
		return err
	}
	_, err = conn.Exec(ctx, `SELECT `+extension+`.drop_chunks($1::regclass, older_than => $2::timestamptz)`,
		pgx.QueryExecModeExec, h.opts.Schema+".value", time.Now().Add(-h.opts.MaxAge))
	return err
}
