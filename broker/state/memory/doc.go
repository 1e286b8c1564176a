// Package memory keeps the shared state in one process: the store of a single
// node, of tests and of the simulated cluster.
//
// Everything is in memory. The buckets named in Options.Durable also survive
// the process and the machine's power: what is done to them is written to a
// journal in Options.Dir and synced before it is answered or can be read. Writes
// that wait at the same time share one sync.
//
// # The journal
//
// The records are in memory anyway, so the disk needs no index, only a way to
// build them again. A directory holds
//
//	snapshot-<n>   every record as of frame n
//	journal-<n>    the frames from n on, until the next journal begins
//	lock           held while a process has the directory
//
// One frame is one group of writes under one checksum, and the next is written
// only when it is synced, so after a crash only the last frame can be torn, and
// nothing acknowledged is in it. A journal that has a sound frame after a damaged
// one was damaged later: the store then refuses to open rather than lose
// acknowledged records unsaid.
//
// When a write or a sync fails (disk full, read-only) the group's outcome is
// unknown, the journal is given up, and the next write begins a new one, named
// by the number of the frame it starts with; that number makes a frame of the same
// or a higher number in an older journal void, so what was answered as failed
// cannot come back beside what followed it. Until a new journal can be begun
// writes fail with state.ErrUnavailable and reads go on.
//
// When the journals have outgrown the records a snapshot is written aside and
// takes their place.
//
// # Session logs
//
// A log is a ring of chunks that are only ever appended to. Appending copies the
// record's bytes once; reading hands out slices of the chunks, which stay valid
// after the entry was dropped. Entries are dropped one by one in the accounts,
// by chunk in memory, so a log holds at most its bound and one chunk more. A tail
// is a position in the ring: it cannot lose what the log still has.
package memory
