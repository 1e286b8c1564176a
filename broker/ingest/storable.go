package ingest

import (
	"encoding/binary"
	"fmt"
	"time"

	"maestrohub.io/uns/broker/value"
)

const (
	// fixedRecordBytes is more than the fields of a record take beside its strings,
	// with the lengths of all but the user properties.
	fixedRecordBytes = 24 * binary.MaxVarintLen64
	// What a user property costs beside its key and value, in memory and in a record:
	// there, the lengths of two strings of at most 65,535 bytes.
	userBytes, userRecordBytes = 32, 2 * 3
	// sharesRoom is what a record may grow by once it is stored, when the members of
	// the shared subscriptions that get it are chosen. A value that more of them match
	// than it has room for, in a log that it all but fills, is LogRefused.
	sharesRoom = 4 << 10
)

// storable refuses, before it is stored, what could never be read or could never be
// in the session log. The value of e is complete.
func (i *Ingest) storable(e *entry, now int64) Outcome {
	v := e.v
	// What becomes too old later on leaves by retention, as everything does.
	if age := time.Duration(now - v.Timestamp); i.o.MaxAge > 0 && age > i.o.MaxAge && !e.clear {
		return Outcome{Refusal: TooOld, Detail: fmt.Sprintf("timestamp %s is %s old; values are kept for %s",
			time.Unix(0, v.Timestamp).UTC().Format(time.RFC3339), inWords(age), inWords(i.o.MaxAge))}
	}
	if n := recordBytes(v); i.o.MaxRecordBytes > 0 && n > i.o.MaxRecordBytes {
		return Outcome{Refusal: TooLarge, Detail: fmt.Sprintf("%d bytes with topic and properties; the workspace's session log holds at most %d", n, i.o.MaxRecordBytes)}
	}
	return Outcome{}
}

// variableBytes is what the strings of a value and its properties take.
func variableBytes(v *value.Value) int {
	n := len(v.Name) + len(v.Payload) + len(v.Properties.ContentType) + len(v.Properties.ResponseTopic) + len(v.Properties.CorrelationData)
	for _, u := range v.Properties.User {
		n += len(u.Key) + len(u.Value) + userBytes
	}
	return n
}

// recordBytes is at least what the value's record takes, whatever is chosen later.
func recordBytes(v *value.Value) int64 {
	n := fixedRecordBytes + variableBytes(v) + len(v.Workspace) + len(v.Publisher) + len(v.ClientID) + sharesRoom
	return int64(n - len(v.Properties.User)*(userBytes-userRecordBytes))
}

// inWords writes a span as a person reads it: whole days from two days on.
func inWords(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= 2*day {
		return fmt.Sprintf("%d days", d/day)
	}
	return d.Round(time.Second).String()
}
