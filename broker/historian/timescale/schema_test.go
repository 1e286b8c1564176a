package timescale

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/value"
)

func TestReplicasThatStartAtOnceMakeOneSchema(t *testing.T) {
	t.Parallel()
	url := database(t, shared)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			h := open(t, url, Options{})
			if err := h.Append(t.Context(), []*value.Value{at("a", time.Now(), "1")}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := number(t, url, "SELECT format FROM maestrohub.format"); got != len(steps) {
		t.Errorf("format %d, want %d", got, len(steps))
	}
	if got := number(t, url, "SELECT count(*)::int FROM maestrohub.topic"); got != 1 {
		t.Errorf("%d topics, want 1", got)
	}
}

func TestTwoInstallationsShareADatabase(t *testing.T) {
	t.Parallel()
	url := database(t, shared)
	a, b := open(t, url, Options{}), open(t, url, Options{Schema: "second"})
	mustAppend(t, a, at("a", time.Now(), "first"))
	mustAppend(t, b, at("a", time.Now(), "second"))
	if got := bodies(t, b, "#"); !slices.Equal(got, []string{"second"}) {
		t.Errorf("the second reads %q", got)
	}
}

func TestDatabaseNoWaitingMakesRightStopsTheStart(t *testing.T) {
	t.Parallel()
	newer := database(t, shared)
	_ = open(t, newer, Options{}).Close()
	exec(t, newer, "UPDATE maestrohub.format SET format = 99")
	exec(t, shared.URL("postgres"), "DROP DATABASE IF EXISTS latin")
	exec(t, shared.URL("postgres"), "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
	exec(t, shared.URL("postgres"), "DROP ROLE IF EXISTS stranger; CREATE ROLE stranger LOGIN")
	for name, c := range map[string]struct{ url, want string }{
		"a newer release's schema": {newer, "format 99"},
		"an encoding that loses":   {shared.URL("latin"), "LATIN1"},
		"a user without rights":    {strings.Replace(shared.URL("postgres"), "postgres@", "stranger@", 1), "permission denied"},
		"a malformed URL":          {"postgres://[", ""},
	} {
		h, err := Open(t.Context(), c.url, Options{})
		if err == nil {
			_ = h.Close()
			t.Errorf("%s: opened", name)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %q, want %q in it", name, err, c.want)
		}
	}
	for name, o := range map[string]Options{
		"schema": {Schema: "Has Space"}, "age": {MaxAge: -1}, "timeout": {WriteTimeout: 1}, "connections": {ReadConnections: -1},
	} {
		if h, err := Open(t.Context(), newer, o); err == nil {
			_ = h.Close()
			t.Errorf("a wrong %s was accepted", name)
		}
	}
}

// A database that is put back to an earlier day or made anew numbers its topics
// again; what was learnt before must not be used there.
func TestDatabaseMadeAnewIsLearntAnew(t *testing.T) {
	t.Parallel()
	url := database(t, shared)
	h := open(t, url, Options{})
	mustAppend(t, h, at("a", time.Now(), "1"), at("b", time.Now(), "1"))
	exec(t, url, "DROP SCHEMA maestrohub CASCADE")
	if err := h.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, h, at("b", time.Now(), "2"))
	mustAppend(t, h, at("a", time.Now(), "3"))
	if got := bodies(t, h, "b"); !slices.Equal(got, []string{"2"}) {
		t.Errorf("topic b has %q, want what was stored in the new database", got)
	}
}

func TestAcknowledgedMeansOnDiskWhateverTheDatabaseSays(t *testing.T) {
	t.Parallel()
	url := database(t, shared)
	exec(t, url, `ALTER DATABASE "`+databaseName(t)+`" SET synchronous_commit = off`)
	h := open(t, url, Options{})
	s, err := h.session(t.Context(), h.writes)
	if err != nil {
		t.Fatal(err)
	}
	defer s.release()
	var level string
	if err := s.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&level); err != nil || level != "on" {
		t.Errorf("synchronous_commit is %q, %v; want on", level, err)
	}
}

func TestMoreLanesThanConnectionsTakeTurns(t *testing.T) {
	t.Parallel()
	h := open(t, database(t, shared), Options{WriteConnections: 2})
	var wg sync.WaitGroup
	for lane := range 12 {
		wg.Go(func() {
			for range 10 {
				v := at("a", time.Now(), "1")
				v.Workspace = strings.Repeat("w", 1+lane)
				if err := h.Append(t.Context(), []*value.Value{v}); err != nil {
					t.Errorf("lane %d: %v", lane, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestReadingDoesNotHoldUpWriting(t *testing.T) {
	t.Parallel()
	h := open(t, database(t, shared), Options{ReadConnections: 1, ReadTimeout: time.Minute})
	mustAppend(t, h, at("a", time.Now(), "1"))
	s, err := h.session(t.Context(), h.reads) // all reading there can be
	if err != nil {
		t.Fatal(err)
	}
	defer s.release()
	mustAppend(t, h, at("a", time.Now(), "2"))
	_, err = h.Read(bounded(t, 50*time.Millisecond), historian.Query{Workspace: "acme", Topic: "a", To: 1<<63 - 1})
	if err == nil || errors.Is(err, historian.ErrUnavailable) {
		t.Errorf("a read without a connection: %v, want its context's error", err)
	}
}
