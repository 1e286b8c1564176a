package timescale

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"
)

// standIn makes a database take for one with TimescaleDB: an extension by that name
// whose functions note their calls. It shows that the statements are well-formed,
// that they come in their order and that a single table is written and read as the
// partitions are; not what TimescaleDB does with them. ALTER TABLE ... SET
// (timescaledb.compress) does not exist here, so policies end as they do where
// TimescaleDB refuses them.
const standIn = `
CREATE SCHEMA "Time Scale";
CREATE TABLE "Time Scale".calls (n serial, call text);
SET allow_system_table_mods = on;
SET check_function_bodies = off;
INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
	SELECT 99999, 'timescaledb', 10, oid, false, '2.17.0' FROM pg_namespace WHERE nspname = 'Time Scale';
CREATE FUNCTION "Time Scale".create_hypertable(relation regclass, time_column_name name, partitioning_column name = NULL,
	number_partitions integer = NULL, chunk_time_interval anyelement = NULL::bigint, create_default_indexes boolean = true)
	RETURNS TABLE (hypertable_id int, schema_name name, table_name name, created bool) LANGUAGE sql AS $$
	INSERT INTO "Time Scale".calls (call) VALUES (format('create_hypertable %s %s %s %s', relation, time_column_name, chunk_time_interval, create_default_indexes));
	SELECT 1, 'maestrohub'::name, 'value'::name, true $$;
CREATE FUNCTION "Time Scale".drop_chunks(relation regclass, older_than timestamptz) RETURNS SETOF text LANGUAGE sql AS $$
	INSERT INTO "Time Scale".calls (call) VALUES (format('drop_chunks %s %s', relation, older_than < now() - interval '8 days'));
	DELETE FROM maestrohub.value WHERE time < older_than RETURNING time::text $$;
CREATE SCHEMA timescaledb_information;
CREATE TABLE timescaledb_information.jobs (proc_name name, hypertable_schema name, hypertable_name name, config jsonb);
`

func TestHypertableIsMadeWrittenAndReadWhereTheExtensionIs(t *testing.T) {
	t.Parallel()
	url := database(t, shared)
	exec(t, url, standIn)
	var log bytes.Buffer
	h := open(t, url, Options{MaxAge: 9 * 24 * time.Hour, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	now := time.Now()
	old := at("a", now.AddDate(0, 0, -20), "old")
	mustAppend(t, h, at("a", now, "1"), at("b", now.Add(1), "2"), at("a", now.AddDate(1, 0, 0), "3"), old)
	mustAppend(t, h, at("a", now, "1"))
	if got := bodies(t, h, "#"); !slices.Equal(got, []string{"1", "2", "3"}) {
		t.Errorf("all: %q", got)
	}
	if got := bodies(t, h, "a"); !slices.Equal(got, []string{"1", "3"}) {
		t.Errorf("a: %q", got)
	}
	sweep(t, h)
	if n := number(t, url, "SELECT count(*)::int FROM maestrohub.value"); n != 3 {
		t.Errorf("%d rows after retention, want 3", n)
	}
	conn := connect(t, url)
	defer conn.Close(t.Context())
	var calls []string
	if err := conn.QueryRow(t.Context(), `SELECT array_agg(DISTINCT call ORDER BY call) FROM "Time Scale".calls`).Scan(&calls); err != nil {
		t.Fatal(err)
	}
	want := []string{"create_hypertable maestrohub.value time 24:00:00 f", "drop_chunks maestrohub.value t"}
	if !slices.Equal(calls, want) {
		t.Errorf("calls %q, want %q", calls, want)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "policies could not be set") {
		t.Errorf("nothing is said about the missing policies:\n%s", &log)
	}
}
