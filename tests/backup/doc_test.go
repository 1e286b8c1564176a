// Package backup_test runs what the page on backups says, with the real nats command line
// and with the broker's own command, against three NATS servers and two replicas: backups
// while devices publish, NATS wiped, everything restored, and what devices then see. Each
// way to save is restored by the other tool. It also deletes buckets under running replicas.
package backup_test
