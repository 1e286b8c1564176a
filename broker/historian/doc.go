// Package historian says what the broker needs of a historian: append values so
// that they are durable, and read them back by topic and time.
//
// The package is the interface, its errors and the row that history returns.
// Implementations are historian/pebble (embedded, one node) and
// historian/timescale; both pass the conformance suite historian/historiantest.
//
// What every implementation promises:
//
//  1. Append returning nil means that every value of the batch survives kill -9
//     and power loss. An error means that the caller does not know: the batch
//     may be there or not, but never in part once the historian has recovered.
//  2. A value carrying its device's timestamp (Timed) is stored once, however
//     often it is sent: rows are the same if workspace, topic, timestamp,
//     publisher, body, kind and quality are. The second Append succeeds and gives
//     the value the Position of the first. A value without a timestamp is told
//     apart by its RowID, so that a retried batch stores nothing twice.
//  3. Position increases from value to value in the order they are stored,
//     survives a restart and is never given to two rows.
//  4. A batch refused for one value's sake says which (ValueError); the caller
//     takes it out and appends the rest again.
//  5. When the store cannot take writes (full, read-only, damaged, closed), Append
//     and Check say so with ErrUnavailable, in words for the operator, and work
//     again once the cause is gone, without a restart.
//  6. Read returns rows in the order of their timestamps, page by page. A cursor
//     stays right while values arrive and while old ones are removed: no row comes
//     twice, and no row that was there throughout is passed over.
//
// A value's life here is short: ingest hands over a batch, Append sets each
// Position, and from then on only Read sees the row. What a row keeps is the value
// (body, quality, times, publisher), not the MQTT message around it.
package historian
