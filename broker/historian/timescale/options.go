package timescale

import (
	"cmp"
	"fmt"
	"log/slog"
	"regexp"
	"time"
)

// Options of a historian. The zero value keeps everything for ever.
type Options struct {
	// MaxAge is how old a value's timestamp may be: older rows are not returned
	// from that moment and are removed with their whole partition or chunk, within
	// an hour of its last moment being too old. 0 keeps every age.
	MaxAge time.Duration
	// Logger takes what an operator can act on; nil means slog.Default.
	Logger *slog.Logger
	// Schema is the database schema everything is in, by default "maestrohub":
	// a lower-case SQL name of at most 40 characters. Two installations in one
	// database need two.
	Schema string
	// WriteConnections is the most connections for Append and Check, by default 16.
	// Each workspace with values in flight uses one; more workspaces than that take
	// turns. PostgreSQL's max_connections has to hold WriteConnections +
	// ReadConnections + 1 of every replica.
	WriteConnections int
	// ReadConnections is the most connections for Read, by default 4, so that no
	// amount of reading holds up a write.
	ReadConnections int
	// WriteTimeout bounds an Append or Check whose context lets it wait longer, by
	// default a minute. Past it the connection is thrown away and the error wraps
	// historian.ErrUnavailable. The server ends such a statement by itself too.
	WriteTimeout time.Duration
	// ReadTimeout is the same for a Read, by default a minute.
	ReadTimeout time.Duration
	// Password, if set, is asked for the password at each new connection and wins
	// over the URL's, so that a renewed Secret is used without a restart.
	Password func() (string, error)
}

// sweepInterval is how often retention is applied and partitions are made ahead.
const sweepInterval = 10 * time.Minute

// maxSchemaName leaves room in PostgreSQL's 63 bytes for what is made of it.
const maxSchemaName = 40

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// withDefaults fills in defaults and checks the rest.
func (o Options) withDefaults() (Options, error) {
	o.Schema = cmp.Or(o.Schema, "maestrohub")
	o.WriteConnections = cmp.Or(o.WriteConnections, 16)
	o.ReadConnections = cmp.Or(o.ReadConnections, 4)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, time.Minute)
	o.ReadTimeout = cmp.Or(o.ReadTimeout, time.Minute)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	switch {
	case !schemaName.MatchString(o.Schema) || len(o.Schema) > maxSchemaName:
		return o, fmt.Errorf("schema %q: at most %d of a-z, 0-9 and _, no digit first", o.Schema, maxSchemaName)
	case o.MaxAge < 0:
		return o, fmt.Errorf("MaxAge %v must not be negative", o.MaxAge)
	case o.WriteConnections < 1 || o.ReadConnections < 1:
		return o, fmt.Errorf("connections %d for writes and %d for reads, at least 1 of each", o.WriteConnections, o.ReadConnections)
	case o.WriteTimeout < time.Millisecond || o.ReadTimeout < time.Millisecond:
		return o, fmt.Errorf("timeouts %v for writes and %v for reads, at least 1ms", o.WriteTimeout, o.ReadTimeout)
	}
	return o, nil
}
