// Package backup saves what a clustered broker keeps in NATS JetStream and brings it
// back: sessions, cursors, wills, retained messages, API clients, the format floor and,
// unless they are left out, the session logs. Values are not among it: they are in the
// historian.
//
// # What a backup is
//
// A folder with a folder for each stream, in it what the nats command line writes too:
// backup.json (configuration and state) and the archive the server sent. Either can
// restore what the other has saved. Beside the folder lies <folder>.json, the Manifest:
// release, format floor, sequences and checksums. It is beside and not inside because
// `nats backup restore account` takes every entry of the folder for a stream.
//
// # The order
//
// Each stream is saved as it is at one instant, while the replicas serve. Cursors come
// first and logs last: a cursor that is older than its log costs a few values twice; one
// that points past the end of its log would make the session read the whole log again.
//
// # Its life
//
//  1. Save writes into <folder>.partial and gives it its name when all of it is there.
//  2. Check reads it from end to end: every record is there, and unchanged since.
//  3. Restore refuses while a replica is alive, where a stream exists (unless told to
//     replace it), where part of the backup is missing and where the format floor is none
//     of this release's. It then compares what the servers have with what was saved.
//
// The snapshot requests are made here and not by NATS's jsm.go, which would bring
// nats-server itself into the broker's binary.
package backup
