// Package pebble is the embedded historian: values in a log-structured store
// (cockroachdb/pebble) in a directory of this machine, for one process.
//
// # Life of a batch
//
//  1. Append checks and encodes the values in the caller's goroutine: each becomes
//     the end of a row key and a row.
//  2. One writer takes all batches that wait, gives each row its topic id, segment
//     and Position, leaves out timed rows that are stored already, and applies them
//     as one Pebble batch: one record in the write-ahead log, whole or not at all.
//  3. While a group waits for its fdatasync the writer makes the next one behind it,
//     so a sync covers all that came since the one before began.
//  4. Once the group is durable its callers are told. Whoever stops waiting (his
//     context ends) may send the batch again: its rows are found or overwritten.
//
// A row whose first sending is not durable yet is found as well; the batch that
// repeats it then waits for a sync of its own, which covers the first.
//
// # Keys
//
//	r segment topic timestamp identity → position received quality flags publisher body
//	c segment                          → start end high
//	n workspace 0 level 0 level …      → topic
//	p topic start segment              → (nothing): the topic has rows in the segment
//	m name                             → number
//
// The identity is a digest of publisher, quality, kind and body, or the RowID. A
// topic that only moves forward in time needs no look-up to know that a timed value
// is new: the writer keeps the newest timestamp of up to 262,144 topics (about
// 50 MB). Others cost a Get, which bloom filters answer if the row is not there.
//
// A segment is a span of time, of one hour at most for values of about now, shorter
// when values arrive fast: about 64 MiB of rows. A timestamp far from now (clocks may
// say anything) gets a segment of up to a 16th of that distance, so there are about
// 16 for each doubling of it. Segments never overlap and a timestamp's segment never
// changes, so a value sent again is found where it was put. Tables hold rows of one
// segment each: flushes of different segments do not overlap, so they are hardly
// ever merged, and the store writes a value twice in all (log and table).
//
// # Reading
//
// A page costs one look at the index per topic name the filter may match (a level
// that differs is skipped, not read through), then for each segment in the order of
// time one seek per matching topic that has rows there, and the rows themselves. It
// holds at most MaxLimit rows and historian.PageBytes, however many topics match:
// of each topic it takes only rows that come before the last one it holds. The cost
// to know is thus that of "#" over many topics: a seek for each, per page.
//
// # Retention
//
// By age: a row is not returned once its timestamp is older than MaxAge. It is
// removed with its segment: up to an hour later, for timestamps far from now up to a
// 16th of how far they were.
//
// By size: MaxBytes is compared with the sum of the tables' sizes, segment by
// segment, whenever a segment is added and every minute; the oldest segments go
// until the rest fits, first those that lie more than a day ahead of the clock. A
// segment takes a 16th of MaxBytes at most (64 MiB if that is less), so what is kept
// is between 15/16 of MaxBytes and all of it. On top of MaxBytes the directory
// holds:
//
//	write-ahead logs    up to (6 + 1) × 16 MiB, kept for reuse     112 MiB
//	rows not flushed    in those logs                                –
//	a merge under way   the tables it reads, until it ends         ≤ 64 MiB a segment
//	removed segments    until the sweep after, a minute at most    one minute of values
//	indexes             about 60 bytes a topic, 20 a topic and segment
//
// so plan MaxBytes + 256 MiB and a minute of values. A removal is one range deletion
// in the writer's next group; the files leave the store at the sweep after.
//
// # When the disk fails
//
// The store inside one process may live several times; a life is a generation. Each
// writes through a fence (see fencedFS): the first change the disk refuses raises
// it, and from then on nothing of that generation reaches the disk, which is what a
// crash at that instant would leave. Nobody is told that anything is durable once
// it is up. The supervisor then closes the generation, tests the disk (at first
// every 200 ms, later every 30 s) with a synced write, and opens the next one.
// Until then Append, Check and Read return a historian.Outage: the cause in words;
// the log has it in full. Writes are refused before the disk is quite full (128 MiB left, or a
// 16th of a small disk), so that the store need not be opened again for it and
// history stays readable meanwhile.
//
// Damage (a wrong checksum, an entry that does not decode) is met by the same path;
// a damaged store is trusted only after all of it was read. Restore a backup with
// the broker stopped, or exchange the directories atomically (renameat2 with
// RENAME_EXCHANGE): the store is closed while it is in trouble, but it is tried again
// at any moment, and a half copied directory would be taken for a new one.
//
// A disk that hangs is not a failing one: callers leave with their contexts, and
// what hangs goes on when the disk does.
package pebble
