package timescale

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// table is the table of rows. Columns are in the order that leaves no gaps between
// them. time has the microseconds PostgreSQL knows, nanos what is beyond them (0 to
// 999), received is in nanoseconds since the Unix epoch. identity tells apart the
// rows of one topic and time (row.go).
const table = `CREATE TABLE @schema.value (
	time         timestamptz NOT NULL,
	position     bigint NOT NULL,
	received     bigint NOT NULL,
	identity     uuid NOT NULL,
	topic_id     integer NOT NULL,
	workspace_id integer NOT NULL,
	nanos        smallint NOT NULL,
	quality      smallint NOT NULL,
	kind         smallint NOT NULL,
	timed        boolean NOT NULL,
	publisher    text NOT NULL,
	body         bytea NOT NULL
)`

// indexes: the row key, by which one topic is read too, and a workspace by time.
const indexes = `
CREATE UNIQUE INDEX value_key ON @schema.value (topic_id, time, nanos, identity);
CREATE INDEX value_by_time ON @schema.value (workspace_id, time, nanos, position);
`

// view is for people and reports; the broker does not use it.
const view = `
CREATE VIEW @schema.history AS
	SELECT w.name AS workspace, t.name AS topic, v.time, v.nanos, v.publisher, v.quality, v.body,
		v.kind = 0 AS json, v.timed, to_timestamp(v.received / 1e9) AS received, v.position
	FROM @schema.value v JOIN @schema.topic t ON t.id = v.topic_id JOIN @schema.workspace w ON w.id = v.workspace_id;
COMMENT ON VIEW @schema.history IS 'Stored values. body is the value as it came; convert_from(body, ''UTF8'')::jsonb reads it where json is true.';
`

// makeTable makes the table of rows, as a hypertable if the database has the
// timescaledb extension.
func (h *Historian) makeTable(ctx context.Context, tx pgx.Tx) (storage, error) {
	extension, err := h.extension(ctx, tx)
	if err != nil {
		return "", err
	}
	kept, statement := partitioned, table+" PARTITION BY RANGE (time);"
	if extension != "" {
		kept, statement = hypertable, table+";"
	}
	if err := h.run(ctx, tx, statement); err != nil {
		return "", err
	}
	if kept == hypertable {
		if err := h.makeHypertable(ctx, tx, extension); err != nil {
			return "", err
		}
	}
	if err := h.run(ctx, tx, indexes+view); err != nil {
		return "", err
	}
	// A compressed body is read and written several times faster with lz4 than with
	// PostgreSQL's default; not every build has it.
	var lz4 bool
	err = tx.QueryRow(ctx, `SELECT 'lz4' = ANY(enumvals) FROM pg_settings WHERE name = 'default_toast_compression'`, pgx.QueryExecModeExec).Scan(&lz4)
	if err == nil && lz4 {
		err = h.run(ctx, tx, `ALTER TABLE @schema.value ALTER COLUMN body SET COMPRESSION lz4`)
	}
	return kept, err
}

// executor is a connection or a transaction.
type executor interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// run runs statements without parameters.
func (h *Historian) run(ctx context.Context, on executor, statements string) error {
	_, err := on.Exec(ctx, h.sql.Replace(statements), pgx.QueryExecModeSimpleProtocol)
	return err
}

// extension returns the schema the timescaledb extension is installed in, quoted,
// or nothing if the database does not have it.
func (h *Historian) extension(ctx context.Context, on executor) (string, error) {
	var schema string
	err := on.QueryRow(ctx, `SELECT coalesce((SELECT quote_ident(n.nspname) FROM pg_extension e
		JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'timescaledb'), '')`, pgx.QueryExecModeExec).Scan(&schema)
	return schema, err
}

// interval writes a duration as PostgreSQL reads it.
func interval(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }
