package postgres

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func start(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := Prepare(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Remove(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// ask runs a query that returns one text.
func ask(t *testing.T, url, query string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	var answer string
	err = conn.QueryRow(ctx, query).Scan(&answer)
	return answer, err
}

func TestServerKeepsItsDataAndPortThroughKillAndStop(t *testing.T) {
	s := start(t, Options{Settings: map[string]string{"application_name": "it's set"}})
	if got, err := ask(t, s.URL("postgres"), "SHOW application_name"); err != nil || got != "it's set" {
		t.Fatalf("the setting is %q, %v", got, err)
	}
	if _, err := ask(t, s.SocketURL("postgres"), "SELECT pg_catalog.set_config('x.y', 'z', false)"); err != nil {
		t.Fatalf("over the socket: %v", err)
	}
	s.Kill()
	if _, err := ask(t, s.URL("postgres"), "SHOW port"); err == nil {
		t.Fatal("a killed server answers")
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(s.Output(), "not properly shut down") {
		t.Errorf("after kill -9 the server did not recover; it printed:\n%s", s.Output())
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(s.Output(), "not properly shut down") {
		t.Errorf("after Stop the server had to recover; it printed:\n%s", s.Output())
	}
}

func TestPausedServerAnswersOnceResumed(t *testing.T) {
	s := start(t, Options{})
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		_, err := ask(t, s.URL("postgres"), "SHOW port")
		answer <- err
	}()
	select {
	case err := <-answer:
		t.Fatalf("a paused server answered: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := <-answer; err != nil {
		t.Fatal(err)
	}
}
