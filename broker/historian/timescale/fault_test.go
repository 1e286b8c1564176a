package timescale

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/value"
	"maestrohub.io/uns/tools/launch/postgres"
)

// TestServerFaults harms a real server in one way after the other.
func TestServerFaults(t *testing.T) {
	t.Parallel()
	s := server(t, postgres.Options{})
	for _, c := range []struct {
		name string
		test func(*testing.T, *postgres.Server)
	}{
		{"KilledServerLosesAndDoublesNothing", killedServer},
		{"StoppedServerIsUnavailableUntilItIsBack", stoppedServer},
		{"HistorianOpensWithoutItsServer", opensWithoutServer},
		{"HungServerBoundsAWriteAndStoresItOnce", hungServer},
		{"WritersGoOnAfterAHang", hangUnderLoad},
		{"ReadOnlyServerIsUnavailable", readOnlyServer},
		{"FullDiskIsUnavailableUntilThereIsRoom", fullDisk},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, s) })
	}
}

func killedServer(t *testing.T, s *postgres.Server) {
	h := open(t, database(t, s), Options{})
	stop := make(chan struct{})
	wait := keepAppending(t, h, 3, stop)
	for range 3 {
		untilMore(t, h, 200)
		s.Kill()
		start(t, s)
	}
	untilMore(t, h, 200)
	close(stop)
	expectExactly(t, h, wait())
}

func stoppedServer(t *testing.T, s *postgres.Server) {
	h := open(t, database(t, s), Options{})
	mustAppend(t, h, at("a", time.Now(), "before"))
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	v := at("a", time.Now(), "during")
	for what, err := range map[string]error{
		"append": h.Append(t.Context(), []*value.Value{v}), "check": h.Check(t.Context()),
		"read": func() error {
			_, err := h.Read(t.Context(), historian.Query{Workspace: "acme", Topic: "a", To: 1<<63 - 1})
			return err
		}(),
	} {
		if !errors.Is(err, historian.ErrUnavailable) {
			t.Errorf("%s on a stopped server: %v, want ErrUnavailable", what, err)
		}
	}
	start(t, s)
	mustAppend(t, h, v)
	if got := bodies(t, h, "a"); !slices.Equal(got, []string{"before", "during"}) {
		t.Fatalf("rows %q", got)
	}
}

func opensWithoutServer(t *testing.T, s *postgres.Server) {
	url := database(t, s)
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	h := open(t, url, Options{})
	if err := h.Check(t.Context()); !errors.Is(err, historian.ErrUnavailable) {
		t.Fatalf("check: %v, want ErrUnavailable", err)
	}
	start(t, s)
	if err := h.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, h, at("a", time.Now(), "1"))
}

func hungServer(t *testing.T, s *postgres.Server) {
	h := open(t, database(t, s), Options{WriteTimeout: 500 * time.Millisecond, ReadTimeout: 500 * time.Millisecond})
	mustAppend(t, h, at("a", time.Now(), "before"))
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	v := at("a", time.Now(), "during")
	// The caller's context ends first: its error.
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := h.Append(ctx, []*value.Value{v}); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, historian.ErrUnavailable) {
		t.Fatalf("append with a bounded context: %v, want the context's error", err)
	}
	// The historian's own bound: an outage.
	began := time.Now()
	for what, call := range map[string]func() error{
		"append": func() error { return h.Append(t.Context(), []*value.Value{v}) },
		"check":  func() error { return h.Check(t.Context()) },
		"read": func() error {
			_, err := h.Read(t.Context(), historian.Query{Workspace: "acme", Topic: "a", To: 1<<63 - 1})
			return err
		},
	} {
		if err := call(); !errors.Is(err, historian.ErrUnavailable) {
			t.Errorf("%s on a hung server: %v, want ErrUnavailable", what, err)
		}
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("three calls of at most 0.5 s took %v", took)
	}
	if v.Position != 0 {
		t.Errorf("a value that was not acknowledged has Position %d", v.Position)
	}
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	if !appendUntilStored(t, h, []*value.Value{v}) {
		t.FailNow()
	}
	if got := bodies(t, h, "a"); !slices.Equal(got, []string{"before", "during"}) {
		t.Fatalf("rows %q", got)
	}
}

func hangUnderLoad(t *testing.T, s *postgres.Server) {
	h := open(t, database(t, s), Options{WriteConnections: 3})
	stop := make(chan struct{})
	wait := keepAppending(t, h, 3, stop)
	for range 2 {
		untilMore(t, h, 200)
		if err := s.Pause(); err != nil {
			t.Fatal(err)
		}
		if err := h.Check(bounded(t, 1500*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("check of a hung server: %v", err)
		}
		if err := s.Resume(); err != nil {
			t.Fatal(err)
		}
	}
	untilMore(t, h, 200)
	close(stop)
	expectExactly(t, h, wait())
}

func bounded(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func readOnlyServer(t *testing.T, s *postgres.Server) {
	url := database(t, s)
	h := open(t, url, Options{})
	mustAppend(t, h, at("a", time.Now(), "before"))
	exec(t, url, "ALTER SYSTEM SET default_transaction_read_only = on")
	exec(t, url, "SELECT pg_reload_conf()")
	v := at("a", time.Now(), "during")
	var err error
	for err == nil { // until the reload has reached the connections
		v.Timestamp++
		err = h.Append(t.Context(), []*value.Value{v})
	}
	for what, err := range map[string]error{"append": err, "check": h.Check(t.Context())} {
		if !errors.Is(err, historian.ErrUnavailable) {
			t.Errorf("%s on a read-only server: %v, want ErrUnavailable", what, err)
		}
	}
	if len(bodies(t, h, "a")) == 0 {
		t.Error("a read-only server cannot be read")
	}
	exec(t, url+"&default_transaction_read_only=off", "ALTER SYSTEM RESET default_transaction_read_only")
	exec(t, url, "SELECT pg_reload_conf()")
	if !appendUntilStored(t, h, []*value.Value{v}) {
		t.FailNow()
	}
	if err := h.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// smallDisk mounts a file system of that many MiB at a folder the server can write.
func smallDisk(t *testing.T, s *postgres.Server, mebibytes int) string {
	t.Helper()
	dir := filepath.Join(s.Dir(), "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mebibytes)); err != nil {
		t.Skipf("mounting a small file system needs root: %v", err)
	}
	t.Cleanup(func() {
		s.Kill()
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	if err := s.Own(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func fullDisk(t *testing.T, s *postgres.Server) {
	dir := smallDisk(t, s, 24)
	exec(t, s.URL("postgres"), fmt.Sprintf("CREATE TABLESPACE small LOCATION '%s'", dir))
	exec(t, s.URL("postgres"), "CREATE DATABASE history TABLESPACE small")
	url := s.URL("history")
	h := open(t, url, Options{})
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	acknowledged := map[string]uint64{}
	random := rand.NewChaCha8([32]byte{1}) // what does not compress
	base := time.Now()
	var batch []*value.Value
	var err error
	for n := 0; err == nil; n++ {
		batch = nil
		for i := range 100 {
			body := make([]byte, 2000)
			_, _ = random.Read(body) // never fails
			batch = append(batch, at("a", base.Add(time.Duration(n*100+i)*time.Microsecond), string(body)))
		}
		if err = h.Append(t.Context(), batch); err == nil {
			for _, v := range batch {
				acknowledged[string(v.Body)] = v.Position
			}
		}
	}
	if !errors.Is(err, historian.ErrUnavailable) {
		t.Fatalf("append on a full disk: %v, want ErrUnavailable", err)
	}
	if err := h.Check(t.Context()); !errors.Is(err, historian.ErrUnavailable) {
		t.Fatalf("check on a full disk: %v, want ErrUnavailable", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := h.Check(t.Context()); err != nil {
		t.Fatalf("check with room again: %v", err)
	}
	if !appendUntilStored(t, h, batch) {
		t.FailNow()
	}
	for _, v := range batch {
		acknowledged[string(v.Body)] = v.Position
	}
	expectExactly(t, h, acknowledged)
}
