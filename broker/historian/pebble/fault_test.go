package pebble

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/value"
)

// waitFor waits until condition holds.
func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}

// waitWritable waits until the store takes values.
func waitWritable(t *testing.T, h *Historian) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("check says: %v", h.Check(t.Context()))
		}
	}()
	waitFor(t, "history takes values again", func() bool { return h.Check(t.Context()) == nil })
}

// quiet is a logger for tests that provoke what it reports.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// faulty is a file system that fails writes with an error while it is on, all of
// them or at random.
type faulty struct {
	errorfs.Toggle
	fs     vfs.FS
	err    error
	chance int // of 100, per operation
	// only limits the fault to these kinds; nil means all that write.
	only []errorfs.OpKind
	hits atomic.Int64
}

func newFaulty(base vfs.FS, err error, chance int, only ...errorfs.OpKind) *faulty {
	f := &faulty{err: err, chance: chance, only: only}
	f.Toggle.Injector = errorfs.InjectorFunc(func(op errorfs.Op) error {
		match := len(f.only) == 0 && op.Kind.ReadOrWrite() == errorfs.OpIsWrite
		for _, kind := range f.only {
			match = match || kind == op.Kind
		}
		if !match || op.Kind == errorfs.OpFileClose || rand.IntN(100) >= f.chance {
			return nil
		}
		f.hits.Add(1)
		return f.err
	})
	f.fs = errorfs.Wrap(base, &f.Toggle)
	return f
}

func TestFailingDiskIsReportedAndRecoveredWithoutARestart(t *testing.T) {
	for _, c := range []struct {
		name   string
		err    error
		chance int
		only   []errorfs.OpKind
		words  string
	}{
		{"full", syscall.ENOSPC, 100, nil, "is full"},
		{"full now and then", syscall.ENOSPC, 20, nil, "is full"},
		{"read-only", syscall.EROFS, 100, nil, "cannot be written"},
		{"failing fdatasync", syscall.EIO, 100, []errorfs.OpKind{errorfs.OpFileSyncData, errorfs.OpFileSync, errorfs.OpFileSyncTo}, "input/output error"},
		{"no new files", syscall.ENOSPC, 100, []errorfs.OpKind{errorfs.OpCreate, errorfs.OpReuseForWrite}, "is full"},
		{"writes fail now and then", syscall.EIO, 30, []errorfs.OpKind{errorfs.OpFileWrite}, "input/output error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			disk := vfs.NewCrashableMem()
			f := newFaulty(disk, c.err, c.chance, c.only...)
			h := open(t, "history", Options{FS: f.fs, Logger: quiet()})
			defer func() { _ = h.Close() }()
			a := &acknowledged{sent: map[int][][]uint64{}}
			n := [3]int{}
			for range 3 {
				appendUntilFailure(t, h, a, &n, f, c.words)
				f.Off()
				waitWritable(t, h)
			}
			for sender := range n { // what failed last is sent again, as ingest does
				values := crashBatch(sender, n[sender])
				mustAppend(t, h, values...)
				a.add(sender, values)
			}
			checkRecovered(t, h, a.copy())
			if err := h.Close(); err != nil {
				t.Fatalf("close: %v", err)
			}
			// The same after a power loss: nothing that was acknowledged was only in memory.
			clone := disk.CrashClone(vfs.CrashCloneCfg{})
			h = open(t, "history", Options{FS: clone})
			checkRecovered(t, h, a.copy())
		})
	}
}

// appendUntilFailure appends from three senders at once, switches the fault on after
// a while and returns when every sender was told of it. Each sender's next batch is
// the one that failed.
func appendUntilFailure(t *testing.T, h *Historian, a *acknowledged, next *[3]int, f *faulty, words string) {
	t.Helper()
	var wg sync.WaitGroup
	var appended atomic.Int64
	for sender := range next {
		wg.Go(func() {
			for ; ; next[sender]++ {
				values := crashBatch(sender, next[sender])
				ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
				err := h.Append(ctx, values)
				cancel()
				if err != nil {
					if !errors.Is(err, historian.ErrUnavailable) || !strings.Contains(err.Error(), words) || strings.ContainsAny(err.Error(), "/<\n") && !strings.Contains(err.Error(), "input/output error") {
						t.Errorf("sender %d: error %v, want ErrUnavailable that says %q and no place", sender, err, words)
					}
					return
				}
				a.add(sender, values)
				appended.Add(1)
			}
		})
	}
	target := int64(20 + rand.IntN(100))
	waitFor(t, "values are appended", func() bool { return appended.Load() >= target })
	f.On()
	_ = h.flushForTest() // so that files are made
	stopped := make(chan struct{})
	go func() { wg.Wait(); close(stopped) }()
	waitFor(t, "every sender is told", func() bool {
		_ = h.flushForTest()
		select {
		case <-stopped:
			return true
		default:
			return false
		}
	})
	if err := h.Check(t.Context()); f.chance == 100 && !errors.Is(err, historian.ErrUnavailable) {
		t.Errorf("check while the disk fails: %v, want ErrUnavailable", err)
	}
}

func TestHungDiskHoldsNobodyBeyondHisContext(t *testing.T) {
	disk := vfs.NewCrashableMem()
	var hang atomic.Pointer[chan struct{}]
	base := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSync {
			if c := hang.Load(); c != nil {
				<-*c
			}
		}
		return nil
	}))
	h := open(t, "history", Options{FS: base, Logger: quiet()})
	defer func() { _ = h.Close() }()
	mustAppend(t, h, crashBatch(0, 0)...)
	gate := make(chan struct{})
	hang.Store(&gate)
	for range 3 { // the same batch, as a caller retries it
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err := h.Append(ctx, crashBatch(0, 1))
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, historian.ErrUnavailable) {
			t.Fatalf("append while the disk hangs: %v, want the deadline", err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := h.Check(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("check while the disk hangs: %v, want the deadline", err)
	}
	// A value that was sent and is not durable yet is not acknowledged because the
	// store has seen it already.
	lost := disk.CrashClone(vfs.CrashCloneCfg{})
	close(gate)
	mustAppend(t, h, crashBatch(0, 1)...)
	if rows := readAll(t, h, "#"); len(rows) != 6 {
		t.Fatalf("%d rows after the disk went on, want 6", len(rows))
	}
	after := open(t, "history", Options{FS: lost})
	defer func() { _ = after.Close() }()
	if rows := readAll(t, after, "#"); len(rows) != 3 {
		t.Fatalf("%d rows survived a power loss during the hang, want 3", len(rows))
	}
}

func TestDiskThatIsFullAtTheStartIsWaitedFor(t *testing.T) {
	f := newFaulty(vfs.NewMem(), syscall.ENOSPC, 100)
	f.On()
	h := open(t, "history", Options{FS: f.fs, Logger: quiet()})
	defer func() { _ = h.Close() }()
	if err := h.Append(t.Context(), crashBatch(0, 0)); !errors.Is(err, historian.ErrUnavailable) || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("append on a full disk: %v, want ErrUnavailable with its cause", err)
	}
	if _, err := h.Read(t.Context(), historian.Query{Workspace: "acme", Topic: "#", To: 1}); !errors.Is(err, historian.ErrUnavailable) {
		t.Fatalf("read on a full disk: %v, want ErrUnavailable", err)
	}
	f.Off()
	waitWritable(t, h)
	mustAppend(t, h, crashBatch(0, 0)...)
}

func TestDamagedStoreIsRefusedUntilItIsRestored(t *testing.T) {
	fs := vfs.Default
	dir := filepath.Join(t.TempDir(), "history")
	h := open(t, dir, Options{})
	var values []*value.Value
	for n := range 3000 {
		values = append(values, crashBatch(0, n)...)
	}
	mustAppend(t, h, values...)
	if err := h.flushForTest(); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	backup := dir + "-backup"
	if _, err := vfs.Clone(fs, fs, dir, backup); err != nil {
		t.Fatal(err)
	}
	damageTables(t, dir)

	h = open(t, dir, Options{Logger: quiet()})
	defer func() { _ = h.Close() }()
	_, err := h.Read(t.Context(), historian.Query{Workspace: "acme", Topic: "#", To: 1<<63 - 1, Limit: historian.MaxLimit})
	if !errors.Is(err, historian.ErrUnavailable) || !strings.Contains(err.Error(), "damaged") || strings.Contains(err.Error(), dir) || strings.ContainsAny(err.Error(), "<\n") {
		t.Fatalf("read of a damaged store: %v, want ErrUnavailable that says so, and not where", err)
	}
	waitFor(t, "writes are refused too", func() bool {
		err := h.Append(t.Context(), crashBatch(1, 0))
		return errors.Is(err, historian.ErrUnavailable) && strings.Contains(err.Error(), "damaged")
	})
	// Still so after an attempt to open it again.
	waitFor(t, "it was tried again", func() bool { return h.attempts.Load() > 0 })
	if err := h.Check(t.Context()); !errors.Is(err, historian.ErrUnavailable) {
		t.Fatalf("check of a damaged store: %v, want ErrUnavailable", err)
	}
	exchange(t, backup, dir)
	waitWritable(t, h)
	if rows := readAll(t, h, "sender/0"); len(rows) != len(values) {
		t.Fatalf("%d rows after the restore, want %d", len(rows), len(values))
	}
}

// damageTables flips a bit in the middle of each table file of a store.
func damageTables(t *testing.T, dir string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no table files in %s: %v", dir, err)
	}
	for _, name := range names {
		editFile(t, name, func(data []byte) { data[len(data)/3] ^= 1 })
	}
}

func TestOpenRefusesWhatNoWaitingWouldCure(t *testing.T) {
	for name, o := range map[string]Options{"negative age": {MaxAge: -1}, "negative size": {MaxBytes: -1}} {
		if _, err := Open(t.TempDir(), o); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
	if _, err := Open("", Options{}); err == nil {
		t.Error("no directory: opened")
	}
	dir := t.TempDir()
	h := open(t, dir, Options{})
	if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "another broker runs") {
		t.Errorf("a store that is open: %v, want an error that says it is in use", err)
	}
	g := h.current
	if err := setMeta(g.db, metaFormat, storeFormat+1); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), fmt.Sprint(storeFormat+1)) {
		t.Errorf("a store of a later release: %v, want an error that names its format", err)
	}
}
