package state

import (
	"fmt"
	"strings"
	"time"
)

// The buckets. Each is a JetStream stream named KV_<bucket>; which of them a
// backup must hold is written beside each.
const (
	// SessionState: each persistent session's identity, subscriptions and
	// expiry, keyed by client id. In the backup.
	SessionState = "mqtt-session-state"
	// SessionCursor: how far each persistent session has read its workspace's
	// log, with its unfinished deliveries. In the backup, before the logs.
	SessionCursor = "mqtt-session-cursor"
	// SessionWill: each connection's Last Will. In the backup.
	SessionWill = "mqtt-session-will"
	// SessionQoS2: received and unreleased packet ids of persistent sessions.
	// Optional in the backup.
	SessionQoS2 = "mqtt-session-qos2"
	// Retained: the retained message of each topic. In the backup.
	Retained = "mqtt-retained"
	// ClusterFloor: the format floor. In the backup.
	ClusterFloor = "mqtt-cluster-floor"
	// Sessions: which replica and connection owns a client id. Rebuilt.
	Sessions = "mqtt-sessions"
	// Routes: which replica wants which topic filters. Rebuilt.
	Routes = "mqtt-routes"
	// Members: the live replicas; entries expire. Rebuilt.
	Members = "mqtt-members"
	// Locks: who holds each lock. Rebuilt.
	Locks = "mqtt-locks"
	// APIClients: the API clients devices sign in as, and the key that signs
	// access tokens. In the backup: without it no device can sign in.
	APIClients = "api-clients"
)

// ProbeKeys is what the keys begin with under which SessionState records that the
// store took a write: they carry no session and are left out of every count.
const ProbeKeys = "$probe/"

// SweepLock is the lock of the replica that sweeps expired sessions, overdue
// wills and gone replicas.
const SweepLock = "leader.mqtt-session-sweep"

// PresenceSubject is where every replica answers with its id for as long as its
// process lives, serving or not: who restores a backup asks there, when there may be no
// bucket of members to look into.
const PresenceSubject = "mqtt-replica.present"

const (
	// BucketStream and LogStream are what the names of streams begin with.
	BucketStream = "KV_"
	LogStream    = "LOG_mqtt-sessions-"

	// MaxKeyBytes is the length of the longest key, that of the longest MQTT
	// string.
	MaxKeyBytes = 65535
	// MaxAppend is how many records one Append takes, JetStream's limit for an
	// atomic batch less the writer's fence record.
	MaxAppend = 999
	// TombstoneAge is how long a deleted record's revision still refuses late
	// writes, well over the longest time a write has been seen to take.
	TombstoneAge = time.Hour
)

// CheckKey says why key cannot be the key of a record: it has 1 to MaxKeyBytes
// bytes, none of them NUL.
func CheckKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("empty key: a record's key has 1 to %d bytes", MaxKeyBytes)
	case len(key) > MaxKeyBytes:
		return fmt.Errorf("key of %d bytes: a record's key has at most %d", len(key), MaxKeyBytes)
	case strings.IndexByte(key, 0) >= 0:
		return fmt.Errorf("key %q holds a NUL byte", key)
	}
	return nil
}

// CheckName says why name cannot name a bucket, a lock or (as a workspace id) a
// log: 1 to 128 bytes without control characters, spaces and any of * > / \.
// Dots are allowed in a lock's name only.
func CheckName(kind, name string) error {
	if name == "" || len(name) > 128 {
		return fmt.Errorf("%s %q has %d bytes: allowed are 1 to 128", kind, name, len(name))
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c == 0x7f || c == '*' || c == '>' || c == '/' || c == '\\' || c == '.' && kind != "lock" {
			return fmt.Errorf("%s %q holds the character %q, which names may not", kind, name, c)
		}
	}
	return nil
}
