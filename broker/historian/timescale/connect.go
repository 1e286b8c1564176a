package timescale

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"maestrohub.io/uns/broker/historian"
)

const (
	connectTimeout = 5 * time.Second
	keepAlive      = 15 * time.Second
	minVersion     = 140000 // DETACH PARTITION CONCURRENTLY
)

// pool makes a pool of connections; none is made yet.
func (h *Historian) pool(url string, size int, timeout time.Duration) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err // pgx leaves passwords out of it
	}
	c.MaxConns = int32(size)
	// A connection found dead is replaced by whoever meets it; no round trip is
	// spent on asking first.
	c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	if c.ConnConfig.ConnectTimeout == 0 {
		c.ConnConfig.ConnectTimeout = connectTimeout
	}
	c.ConnConfig.DialFunc = (&net.Dialer{KeepAlive: keepAlive}).DialContext
	if _, found := c.ConnConfig.RuntimeParams["application_name"]; !found {
		c.ConnConfig.RuntimeParams["application_name"] = "maestrohub uns historian"
	}
	if h.opts.Password != nil {
		c.BeforeConnect = func(_ context.Context, cc *pgx.ConnConfig) error {
			password, err := h.opts.Password()
			if err != nil {
				return fmt.Errorf("password of the database: %w", err)
			}
			cc.Password = password
			return nil
		}
	}
	c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		// A connection whose server never answers must not be waited for in the
		// background of an Append that has gone.
		ctx, cancel := context.WithTimeout(ctx, c.ConnConfig.ConnectTimeout)
		defer cancel()
		if err := h.greet(ctx, conn, timeout); err != nil {
			return err
		}
		return nil
	}
	return pgxpool.NewWithConfig(context.Background(), c)
}

// place tells a database from what may stand under the same address later: another
// server, one restored from a backup, a schema made anew. What was learnt in one
// place (numbers of topics, partitions there) is not true in another.
type place struct {
	started string // when the server process started
	oid     uint32 // of the database
	table   uint32 // oid of the topic table, 0 if there is none yet
}

const greeting = `SELECT set_config('synchronous_commit',
		CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false),
	set_config('statement_timeout', $1, false), set_config('jit', 'off', false),
	set_config('idle_in_transaction_session_timeout', $1, false),
	pg_postmaster_start_time()::text, (SELECT oid FROM pg_database WHERE datname = current_database()),
	coalesce(to_regclass('@schema.topic')::oid, 0),
	current_setting('server_version_num')::int, current_setting('server_encoding'),
	current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on'`

// greet sets a new connection up: an acknowledged commit is on disk whatever the
// database's default says ('local' and the stricter levels stay), no statement
// runs for longer than anybody waits for it, and none is compiled first, which takes
// longer than our statements do.
func (h *Historian) greet(ctx context.Context, conn *pgx.Conn, timeout time.Duration) error {
	var p place
	var version int
	var encoding string
	var durable bool
	var ignored [4]string
	err := conn.QueryRow(ctx, h.sql.Replace(greeting), pgx.QueryExecModeExec, strconv.FormatInt(timeout.Milliseconds(), 10)).Scan(
		&ignored[0], &ignored[1], &ignored[2], &ignored[3], &p.started, &p.oid, &p.table, &version, &encoding, &durable)
	switch {
	case err != nil:
		return err
	case version < minVersion:
		return &unusable{fmt.Errorf("PostgreSQL %d.%d, at least %d is needed", version/10000, version%10000, minVersion/10000)}
	case encoding != "UTF8":
		return &unusable{fmt.Errorf("the database's encoding is %s, UTF8 is needed", encoding)}
	}
	if !durable {
		h.noteUnsafe.Do(func() {
			h.log.Warn("embedded broker: the history's server may lose acknowledged values in a power cut: its fsync or full_page_writes is off")
		})
	}
	conn.PgConn().CustomData()["place"] = p
	return nil
}

// unusable is the error of a database that no waiting makes right.
type unusable struct{ err error }

func (e *unusable) Error() string { return e.err.Error() }

// Unwrap: to a caller after Open it is an outage like any other.
func (e *unusable) Unwrap() []error { return []error{historian.ErrUnavailable, e.err} }

// session is a connection in use, with what is known of its database.
type session struct {
	*pgxpool.Conn
	known *knowledge
}

func (s *session) release() { s.Conn.Release() }

// session takes a connection, waiting for one if all are in use, and makes sure of
// the schema.
func (h *Historian) session(ctx context.Context, from *pgxpool.Pool) (*session, error) {
	conn, err := from.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	p, _ := conn.Conn().PgConn().CustomData()["place"].(place)
	if known := h.knowledge(p); known.storage.Load() != nil {
		return &session{conn, known}, nil
	}
	known, err := h.setUp(ctx, conn)
	if err != nil {
		conn.Release()
		return nil, err
	}
	return &session{conn, known}, nil
}

// knowledge is what was learnt of one place.
type knowledge struct {
	place
	storage    storagePointer
	topics     topics
	partitions partitions
}

// knowledge returns what is known of a place; of another place than the last
// nothing is.
func (h *Historian) knowledge(p place) *knowledge {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known.place != p {
		h.known = &knowledge{place: p}
	}
	return h.known
}
