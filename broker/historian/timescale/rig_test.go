package timescale

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/value"
	"maestrohub.io/uns/tools/launch"
	"maestrohub.io/uns/tools/launch/postgres"
)

// shared is the server of all tests that do not harm theirs; each has databases of
// its own there.
var shared *postgres.Server

// trusted is the certificate of who signed the shared server's.
var trusted []byte

func TestMain(m *testing.M) {
	code, err := withServer(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withServer(run func() int) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	authority, err := launch.NewAuthority("database test authority")
	if err != nil {
		return 0, err
	}
	certificate, key, err := authority.Issue("database")
	if err != nil {
		return 0, err
	}
	settings := map[string]string{"ssl": "on"}
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		// Nobody cuts the power of this server; figures need the disk.
		settings["fsync"] = "off"
	}
	s, err := postgres.Prepare(ctx, postgres.Options{
		Settings: settings,
		Files:    map[string][]byte{"server.crt": certificate, "server.key": key},
		HBA:      []string{"hostssl all secured 127.0.0.1/32 scram-sha-256", "host all secured 127.0.0.1/32 reject"},
	})
	if err != nil {
		return 0, err
	}
	defer func() { _ = s.Remove() }()
	trusted = authority.PEM
	if err := s.Start(ctx); err != nil {
		return 0, err
	}
	shared = s
	return run(), nil
}

// server starts a server that the test may harm.
func server(t testing.TB, o postgres.Options) *postgres.Server {
	t.Helper()
	s, err := postgres.Prepare(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the server printed:\n%s", s.Output())
		}
		if err := s.Remove(); err != nil {
			t.Error(err)
		}
	})
	start(t, s)
	return s
}

func start(t testing.TB, s *postgres.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Start(ctx); err != nil {
		t.Fatal(err)
	}
}

// database makes an empty database named for the test on a server and returns its
// URL.
func database(t testing.TB, s *postgres.Server) string {
	t.Helper()
	name := databaseName(t)
	exec(t, s.URL("postgres"), fmt.Sprintf("DROP DATABASE IF EXISTS %q WITH (FORCE)", name)) // of the same benchmark before
	exec(t, s.URL("postgres"), fmt.Sprintf("CREATE DATABASE %q", name))
	return s.URL(name)
}

func databaseName(t testing.TB) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToLower(t.Name()))
	return name[:min(len(name), 60)]
}

// exec runs statements over a connection of its own.
func exec(t testing.TB, url, statements string) {
	t.Helper()
	conn := connect(t, url)
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), statements, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatalf("%s: %v", statements, err)
	}
}

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// number runs a query that returns one number.
func number(t testing.TB, url, query string) (n int) {
	t.Helper()
	conn := connect(t, url)
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// open opens a historian that the test closes at the latest.
func open(t testing.TB, url string, o Options) *Historian {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	h, err := Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// at is a value of a device that tells the time.
func at(topic string, timestamp time.Time, body string) *value.Value {
	v := &value.Value{
		Workspace: "acme", Topic: topic, Name: "mHv1.0/acme/" + topic, Publisher: "press-7", ClientID: "press-7-a",
		Timestamp: timestamp.UnixNano(), Timed: true, Received: timestamp.UnixNano() + 7,
		Quality: value.Good, Payload: []byte(body), QoS: 1,
	}
	v.Body = v.Payload
	return v
}

// bodies reads all rows of a topic or filter, oldest first.
func bodies(t testing.TB, h *Historian, topic string) []string {
	t.Helper()
	q := historian.Query{Workspace: "acme", Topic: topic, From: 0, To: 1<<63 - 1, Limit: historian.MaxLimit}
	var all []string
	for {
		page, err := h.Read(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Rows {
			all = append(all, string(r.Body))
		}
		if q.After = page.Next; q.After == "" {
			return all
		}
	}
}

func mustAppend(t testing.TB, h *Historian, values ...*value.Value) {
	t.Helper()
	if err := h.Append(t.Context(), values); err != nil {
		t.Fatal(err)
	}
}
