package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/broker/config"
)

// noise writes to a file of the directory all the time until the test ends, as a
// log does.
func noise(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "app.log"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(settle / 10)
		defer tick.Stop()
		for ctx.Err() == nil {
			_, _ = io.WriteString(f, "a line\n")
			<-tick.C
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		_ = f.Close()
	})
}

func TestTheClientsFileIsTakenWhileOthersWriteBesideIt(t *testing.T) {
	dir := t.TempDir()
	c := ephemeral(filepath.Join(dir, "data"))
	c.ClientsFile = write(t, filepath.Join(dir, "clients.yaml"), oneClient)
	r := start(t, c)
	noise(t, dir)
	write(t, c.ClientsFile, strings.Replace(oneClient, "scopes: ['uns:read']", "publish: []", 1))
	for deadline := time.Now().Add(5 * time.Second); ; <-time.After(10 * time.Millisecond) {
		if client, err := r.Access().Get(t.Context(), "press"); err == nil && len(client.Publish) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the narrowed grant is not in force after 5 s")
		}
	}
}

func TestAFolderOfClientsFilesIsFollowed(t *testing.T) {
	dir := t.TempDir()
	c := ephemeral(filepath.Join(dir, "data"))
	c.ClientsFile = filepath.Join(dir, "clients")
	// As a projected volume has them: the files are links into a folder that is swapped.
	for _, version := range []string{"..1", "..2"} {
		if err := os.MkdirAll(filepath.Join(c.ClientsFile, version), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(c.ClientsFile, version, "clients.yaml"), oneClient)
	}
	write(t, filepath.Join(c.ClientsFile, "..2", "test.yaml"), strings.Replace(oneClient, "press", "test", 1))
	point := func(version string) {
		t.Helper()
		link := filepath.Join(c.ClientsFile, "..next")
		if err := errors.Join(os.Symlink(version, link), os.Rename(link, filepath.Join(c.ClientsFile, "..data"))); err != nil {
			t.Fatal(err)
		}
	}
	point("..1")
	if err := os.Symlink(filepath.Join("..data", "clients.yaml"), filepath.Join(c.ClientsFile, "clients.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := CheckFiles(c); err != nil {
		t.Fatal(err)
	}
	r := start(t, c)
	if _, err := r.Access().Get(t.Context(), "press"); err != nil {
		t.Fatal(err)
	}
	point("..2")
	if err := os.Symlink(filepath.Join("..data", "test.yaml"), filepath.Join(c.ClientsFile, "test.yaml")); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(5 * time.Second); ; <-time.After(10 * time.Millisecond) {
		if _, err := r.Access().Get(t.Context(), "test"); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the client of the new file is not there after 5 s")
		}
	}
}

// seederOf follows a file without a replica: look is called by the test.
func seederOf(t *testing.T, text string, seed func() error) (*seeder, *lockedBuffer) {
	t.Helper()
	log := &lockedBuffer{}
	s := &seeder{path: write(t, filepath.Join(t.TempDir(), "clients.yaml"), text), check: access.CheckSeed,
		seed: func(context.Context, []byte) error { return seed() }, log: NewLogger(log, config.Log{})}
	if err := s.once(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, log
}

func (s *seeder) looks(t *testing.T, n int) {
	t.Helper()
	for range n {
		s.look(t.Context())
	}
}

func TestARefusedClientsFileIsReportedOnceAndForgottenOnceRight(t *testing.T) {
	s, log := seederOf(t, oneClient, func() error { return nil })
	for round := 1; round <= 2; round++ {
		write(t, s.path, "clients: 7\n")
		s.looks(t, 10)
		if got := strings.Count(log.String(), "not taken"); got != round {
			t.Fatalf("%d lines for the wrong file, want %d:\n%s", got, round, log.String())
		}
		if err := s.err(); err == nil || !strings.Contains(err.Error(), "must be a list") {
			t.Errorf("error %v, want what is wrong with the file", err)
		}
		write(t, s.path, oneClient)
		s.looks(t, 10)
		if err := s.err(); err != nil {
			t.Errorf("the file is right again and the error is still %v", err)
		}
	}
	if err := os.Remove(s.path); err != nil {
		t.Fatal(err)
	}
	s.looks(t, 10)
	if got := strings.Count(log.String(), "no such file"); got != 1 {
		t.Errorf("%d lines for a file that is gone, want 1:\n%s", got, log.String())
	}
}

func TestAClientsFileIsNotJudgedWhileItIsBeingWritten(t *testing.T) {
	seeded := 0
	s, log := seederOf(t, oneClient, func() error { seeded++; return nil })
	for n := range 5 {
		write(t, s.path, fmt.Sprint("clients: ", n))
		s.looks(t, 1)
	}
	write(t, s.path, oneClient+"# the end\n")
	s.looks(t, 2)
	if seeded != 2 || strings.Contains(log.String(), "not taken") {
		t.Errorf("seeded %d times, want at start and when it was whole:\n%s", seeded, log.String())
	}
}

func TestClientsThatCouldNotBeStoredAreTriedAgain(t *testing.T) {
	var down error
	s, log := seederOf(t, oneClient, func() error { return down })
	down = errors.New("the store does not answer")
	write(t, s.path, oneClient+"# changed\n")
	s.looks(t, 10)
	if got := strings.Count(log.String(), "does not answer"); got != 1 || s.err() == nil || !s.unstored {
		t.Fatalf("%d lines, error %v, to be tried again %t; want 1, one and true:\n%s", got, s.err(), s.unstored, log.String())
	}
	down = nil
	s.judged = nil // what run does at its interval
	s.looks(t, 2)
	if s.err() != nil || s.unstored {
		t.Errorf("error %v after the store took them", s.err())
	}
}

func TestTheStatusShowsARefusedClientsFile(t *testing.T) {
	dir := t.TempDir()
	c := ephemeral(filepath.Join(dir, "data"))
	c.ClientsFile = write(t, filepath.Join(dir, "clients.yaml"), oneClient)
	r := start(t, c)
	if s := r.status().Broker.ClientsFile; s.File != c.ClientsFile || s.Error != "" {
		t.Errorf("status says %+v of a file that is taken", s)
	}
	write(t, c.ClientsFile, "clients: 7\n")
	for deadline := time.Now().Add(20 * time.Second); r.status().Broker.ClientsFile.Error == ""; <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the status shows no error 20 s after the file became wrong")
		}
	}
}
