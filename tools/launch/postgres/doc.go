// Package postgres starts real PostgreSQL servers for tests and for the local
// cluster: the server of Debian's package, version 14 or later, over a folder of
// its own, on a loopback port and a Unix socket, as a user that is not root
// (PostgreSQL refuses to run as root).
//
// The life of a server:
//
//  1. Prepare makes the folder with initdb and reserves a port. The superuser is
//     "postgres", without a password on the socket and on loopback.
//  2. Start runs it and waits until it takes connections; URL says where.
//  3. Kill is kill -9 of every process of it at the same moment, as a power cut
//     would do it to the server but not to the disk; Pause and Resume stop and
//     continue every process, as a hung machine looks from outside; Stop is the
//     administrator's fast shutdown. Start may follow again on the same folder and
//     port.
//  4. Remove kills it and deletes the folder.
//
// However its starter ends, the kernel kills the postmaster with it, and the
// other processes end when they see that.
package postgres
