// Package timescale is the historian of several replicas: TimescaleDB, or plain
// PostgreSQL from 14 on, through pgx. It implements historian.Historian; what that
// promises is not repeated here.
//
// # How it is kept
//
// Everything is in one schema (schema1.sql, table.go), made and updated by whichever
// replica comes first, under an advisory lock. The table value has one row per stored
// value, without its MQTT properties. Where the database has the timescaledb
// extension it is a hypertable of days with policies for compression (after a week)
// and retention; elsewhere it is partitioned by time (partition.go). Which of the two is
// decided once, when the table is made. The view history is for people:
//
//	SELECT time, topic, convert_from(body, 'UTF8') AS value FROM maestrohub.history
//	WHERE workspace = 'acme' AND topic = 'line/1/temperature' AND time > now() - interval '1 hour';
//
// # The life of a batch
//
//  1. Names and times the database cannot hold are refused, with the value's index.
//  2. Every row gets its identity, which with topic and time is its key (row.go).
//     Values that are the same row are stored once.
//  3. Topics get numbers (topics.go), rows without a partition one (partition.go).
//  4. One INSERT per 4,096 rows takes all columns as arrays, ON CONFLICT DO NOTHING; all
//     of a batch in one round trip and one transaction. Rows are written in the order of
//     their keys, so that replicas storing the same rows never deadlock.
//  5. Rows that were there are looked up for their Position, in a transaction that waits
//     for synchronous standbys as a write does. What is neither written nor found is
//     written again: "stored" is never concluded from a missing error.
//  6. Positions are handed out once the end of the transaction was read.
//
// Whatever breaks off in between, the same batch may be sent again, and is when a
// connection turns out to be dead.
//
// # Position
//
// A Position is a number of a block of a sequence and the place in the statement.
// Blocks are taken inside the statement and none in advance: a value handed to any
// replica after another was acknowledged has the greater Position, and a value stored
// before keeps its first one. That is what retained messages need, where the greater
// Position wins: a repeated old value never replaces a newer one. Positions of values
// under way at the same moment at two replicas come in either order, and become
// visible in either order: Positions are not a log to be read by "greater than the last
// seen". They have gaps. A failover to an asynchronous standby loses what it had not
// received, here as everywhere; set synchronous_standby_names.
//
// # What goes wrong
//
// A value PostgreSQL refuses without naming it is found by halves, in transactions that
// are rolled back, and is a historian.ValueError. Everything else (trouble.go) is an
// outage in words for the operator, wrapping historian.ErrUnavailable: server gone,
// starting or stopping, standby, full disk, too slow. Nothing is decided by the
// context alone: Options has bounds, and a connection that did not answer is thrown
// away and its statement cancelled. A database that is another than before (restored,
// failed over, made anew) is recognised by its connections, and nothing learnt of the
// old one is used. synchronous_commit is never off.
//
// # Figures
//
// Server's CPU time per 256-byte value, two indexes and WAL included, PostgreSQL 15, by
// batch of 1, 10, 100 and 1,000: arrays 181, 35, 14 and 9.5 µs; COPY into the table
// 296, 45, 9.0 and 7.0 µs; COPY into a temporary table and INSERT from there 675, 69, 16
// and 11 µs. COPY needs three round trips and fails as a whole where a row exists, so
// arrays were chosen. BenchmarkAppend and BenchmarkReadNewest measure the rest.
package timescale
