package timescale

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// steps bring a schema from each format to the next; append only, never change
// one that was released. A step must leave the schema usable by the release
// before, which runs beside this one during an upgrade.
var steps = []string{schema1}

//go:embed schema1.sql
var schema1 string

// storage is how the table of rows is kept: decided when it is made.
type storage string

const (
	hypertable  storage = "hypertable"
	partitioned storage = "partitions"
)

type storagePointer = atomic.Pointer[storage]

// Advisory locks, one number each beside the schema's: what replicas must not do at
// the same time.
const (
	lockSetup = iota
	lockPartitions
	lockSweep
)

// lockKey returns the number of an advisory lock.
func (h *Historian) lockKey(which int) int64 {
	sum := fnv.New64a()
	fmt.Fprintf(sum, "maestrohub historian %s %d", h.opts.Schema, which)
	return int64(sum.Sum64())
}

// setUp makes or updates the schema on a connection and returns what is known of
// the place then. Replicas that start at once take turns.
func (h *Historian) setUp(ctx context.Context, conn *pgxpool.Conn) (*knowledge, error) {
	h.settingUp.Lock()
	defer h.settingUp.Unlock()
	kept, err := h.migrate(ctx, conn.Conn())
	if err != nil {
		return nil, err
	}
	if kept == hypertable {
		h.applyPolicies(ctx, conn.Conn())
	}
	custom := conn.Conn().PgConn().CustomData()
	p := custom["place"].(place)
	if err := conn.QueryRow(ctx, h.sql.Replace(`SELECT '@schema.topic'::regclass::oid`), pgx.QueryExecModeExec).Scan(&p.table); err != nil {
		return nil, err
	}
	custom["place"] = p
	known := h.knowledge(p)
	known.storage.Store(&kept)
	return known, nil
}

// migrate runs the steps that are missing, all or none.
func (h *Historian) migrate(ctx context.Context, conn *pgx.Conn) (storage, error) {
	if format, kept, err := h.format(ctx, conn); err != nil || format == len(steps) {
		return kept, err
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return "", err
	}
	defer abandon(ctx, tx.Rollback)
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", pgx.QueryExecModeExec, h.lockKey(lockSetup)); err != nil {
		return "", err
	}
	format, kept, err := h.format(ctx, conn) // another replica may have been faster
	if err != nil || format == len(steps) {
		return kept, err
	}
	for ; format < len(steps); format++ {
		if _, err := tx.Exec(ctx, h.sql.Replace(steps[format]), pgx.QueryExecModeSimpleProtocol); err != nil {
			return "", wrong(fmt.Errorf("bring the schema %s to format %d: %w", h.opts.Schema, format+1, err))
		}
	}
	if kept == "" {
		if kept, err = h.makeTable(ctx, tx); err != nil {
			return "", wrong(fmt.Errorf("make the table of rows in the schema %s: %w", h.opts.Schema, err))
		}
	}
	if _, err := tx.Exec(ctx, h.sql.Replace(`INSERT INTO @schema.format (format, storage) VALUES ($1, $2)
			ON CONFLICT (one) DO UPDATE SET format = excluded.format`), pgx.QueryExecModeExec, len(steps), string(kept)); err != nil {
		return "", err
	}
	if err := tx.Commit(ctx); err != nil {
		return "", err
	}
	h.log.Info("embedded broker: history schema is ready", "schema", h.opts.Schema, "format", len(steps), "storage", string(kept))
	return kept, nil
}

// wrong marks an error that repeating does not cure, a missing privilege above all.
func wrong(err error) error {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && strings.HasPrefix(refused.Code, classRule) {
		return &unusable{err}
	}
	return err
}

// format reads which format the schema has, 0 if there is none.
func (h *Historian) format(ctx context.Context, conn *pgx.Conn) (int, storage, error) {
	// Asked of the catalogue's rows: to_regclass may answer from before a lock that
	// was waited for.
	var found bool
	err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relname = 'format')`, pgx.QueryExecModeExec, h.opts.Schema).Scan(&found)
	if err != nil || !found {
		return 0, "", err
	}
	var format int
	var kept storage
	err = conn.QueryRow(ctx, h.sql.Replace(`SELECT format, storage FROM @schema.format`), pgx.QueryExecModeExec).Scan(&format, &kept)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return 0, "", nil
	case err != nil:
		return 0, "", err
	case format > len(steps):
		return 0, "", &unusable{fmt.Errorf("the schema %s has format %d, this release knows %d: a newer release has been here", h.opts.Schema, format, len(steps))}
	}
	return format, kept, nil
}
