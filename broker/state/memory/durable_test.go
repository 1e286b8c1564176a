package memory_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/memory"
)

func open(t testing.TB, fs vfs.FS, dir string) *memory.Store {
	t.Helper()
	s, err := memory.Open(memory.Options{Dir: dir, FS: fs, Durable: []string{state.APIClients, state.Retained}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func bucket(t testing.TB, s state.Store, name string) state.Bucket {
	t.Helper()
	b, err := s.Bucket(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func contents(t testing.TB, b state.Bucket) map[string]string {
	t.Helper()
	records, err := b.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, r := range records {
		all[r.Key] = fmt.Sprintf("%d %s", r.Revision, r.Value)
	}
	return all
}

func put(t testing.TB, b state.Bucket, key, value string) uint64 {
	t.Helper()
	revision, err := b.Put(t.Context(), key, []byte(value))
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

func TestDurableBucketsSurviveReopening(t *testing.T) {
	dir := t.TempDir()
	s := open(t, nil, dir)
	clients, retained := bucket(t, s, state.APIClients), bucket(t, s, state.Retained)
	put(t, clients, "a", "1")
	revision := put(t, clients, "b", "1")
	if _, err := clients.Delete(t.Context(), "b", revision); err != nil {
		t.Fatal(err)
	}
	put(t, retained, "t", "21.5")
	put(t, bucket(t, s, state.Routes), "r", "not kept")
	record, err := clients.Get(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	wantClients, wantRetained := contents(t, clients), contents(t, retained)
	for range 3 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, nil, dir)
		clients, retained = bucket(t, s, state.APIClients), bucket(t, s, state.Retained)
		if got := contents(t, clients); !maps.Equal(got, wantClients) {
			t.Fatalf("after reopening: %v, want %v", got, wantClients)
		}
		if got := contents(t, retained); !maps.Equal(got, wantRetained) {
			t.Fatalf("after reopening: %v, want %v", got, wantRetained)
		}
		if got, err := clients.Get(t.Context(), "a"); err != nil || !got.Time.Equal(record.Time) {
			t.Fatalf("after reopening the record has time %v, error %v, want %v", got.Time, err, record.Time)
		}
		if got := contents(t, bucket(t, s, state.Routes)); len(got) != 0 {
			t.Fatalf("a bucket that is not durable shows %v", got)
		}
	}
	if _, err := clients.Update(t.Context(), "b", []byte("late"), revision); !errors.Is(err, state.ErrConflict) {
		t.Fatalf("late update of a deleted record after reopening: %v, want ErrConflict", err)
	}
	if again := put(t, clients, "c", "1"); again <= revision+1 {
		t.Fatalf("revision %d after reopening, %d was the newest before", again, revision+1)
	}
}

func TestOneProcessHoldsTheDirectory(t *testing.T) {
	dir := t.TempDir()
	open(t, nil, dir)
	if s, err := memory.Open(memory.Options{Dir: dir, Durable: []string{state.Retained}}); err == nil {
		s.Close()
		t.Fatal("a directory in use was opened a second time")
	} else if !strings.Contains(err.Error(), "another broker runs on this data directory") {
		t.Errorf("a directory in use: %v, want an error that says so", err)
	}
}

func TestTombstonesAreForgottenInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		s := open(t, fs, "d")
		b := bucket(t, s, state.APIClients)
		old := put(t, b, "a", "1")
		gone, err := b.Delete(t.Context(), "a", old)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(state.TombstoneAge - time.Minute)
		put(t, b, "other", "1")
		if _, err := b.Update(t.Context(), "a", nil, old); !errors.Is(err, state.ErrConflict) {
			t.Fatalf("late update: %v", err)
		}
		time.Sleep(2 * time.Minute)
		put(t, b, "other", "2")
		if _, err := b.Update(t.Context(), "a", nil, gone); !errors.Is(err, state.ErrConflict) {
			t.Fatalf("update at a forgotten deletion: %v, want ErrConflict: the record is absent now", err)
		}
		if revision, err := b.Create(t.Context(), "a", nil); err != nil || revision <= gone {
			t.Fatalf("create after the tombstone: revision %d, error %v", revision, err)
		}
		s.Close()
	})
}

func TestRecordsVanishAfterTheirTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := memory.Open(memory.Options{TTL: map[string]time.Duration{state.Members: 10 * time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		b := bucket(t, s, state.Members)
		put(t, b, "a", "1")
		revision := put(t, b, "b", "1")
		time.Sleep(9 * time.Second)
		put(t, b, "a", "2")
		time.Sleep(time.Second)
		if got := contents(t, b); len(got) != 1 || got["a"] == "" {
			t.Fatalf("after the TTL of b: %v, want a alone", got)
		}
		if _, err := b.Get(t.Context(), "b"); !errors.Is(err, state.ErrNotFound) {
			t.Fatalf("get of an expired record: %v", err)
		}
		if _, err := b.Update(t.Context(), "b", nil, revision); !errors.Is(err, state.ErrConflict) {
			t.Fatalf("update of an expired record: %v", err)
		}
		if _, err := b.Create(t.Context(), "b", nil); err != nil {
			t.Fatalf("create over an expired record: %v", err)
		}
	})
}

// TestPowerLossLosesNothingAcknowledged writes on a file system of which a crash
// keeps what was synced and any part of the rest.
func TestPowerLossLosesNothingAcknowledged(t *testing.T) {
	for seed := range uint64(20) {
		fs := vfs.NewCrashableMem()
		for life := range 4 {
			s := open(t, fs, "d")
			b := bucket(t, s, state.Retained)
			want := contents(t, b)
			var crashed *vfs.MemFS
			var acked map[string]string
			random := rand.New(rand.NewPCG(seed, uint64(life)))
			crashAt := random.IntN(60)
			var mu sync.Mutex
			var wg sync.WaitGroup
			for w := range 4 {
				wg.Go(func() {
					for i := range 20 {
						key, value := fmt.Sprintf("%d/%d", w, i%5), fmt.Sprintf("%d of life %d", i, life)
						revision, err := b.Put(t.Context(), key, []byte(value))
						if err != nil {
							t.Errorf("put: %v", err)
							return
						}
						mu.Lock()
						want[key] = fmt.Sprintf("%d %s", revision, value)
						if crashAt--; crashAt == 0 {
							acked = maps.Clone(want)
							crashed = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: random.IntN(101), RNG: random})
						}
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			if crashed == nil {
				s.Close()
				continue
			}
			after := open(t, crashed, "d")
			got := contents(t, bucket(t, after, state.Retained))
			for key, value := range acked {
				var newest, before uint64
				fmt.Sscan(got[key], &newest)
				fmt.Sscan(value, &before)
				if newest < before {
					t.Fatalf("seed %d, life %d: %s was acknowledged as %q, after the crash it is %q", seed, life, key, value, got[key])
				}
			}
			after.Close()
			s.Close()
			fs = crashed
		}
	}
}

// TestDiskFaultsAreReportedAndHeal makes writes and syncs fail for a while.
func TestDiskFaultsAreReportedAndHeal(t *testing.T) {
	for _, kind := range []errorfs.OpKind{errorfs.OpFileWrite, errorfs.OpFileSyncData, errorfs.OpFileSync, errorfs.OpCreate} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			mem := vfs.NewMem()
			var failing sync.Map
			fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if _, ok := failing.Load(op.Kind); ok {
					return errors.New("no space left on device")
				}
				return nil
			}))
			s := open(t, fs, "d")
			b := bucket(t, s, state.Retained)
			want := map[string]string{}
			last := map[string]uint64{}
			for i := range 40 {
				if i%8 == 3 {
					failing.Store(kind, true)
				} else if i%8 == 6 {
					failing.Delete(kind)
				}
				key, value := fmt.Sprint("k", i%3), fmt.Sprint(i)
				revision, err := b.Put(t.Context(), key, []byte(value))
				probe := s.Probe(t.Context())
				_, broken := failing.Load(kind)
				switch {
				case err == nil:
					want[key] = fmt.Sprintf("%d %s", revision, value)
					if revision <= last[key] {
						t.Fatalf("put %d has revision %d after %d", i, revision, last[key])
					}
					last[key] = revision
				case !broken:
					t.Fatalf("put %d on a sound disk: %v", i, err)
				case !errors.Is(err, state.ErrUnknown) && !errors.Is(err, state.ErrUnavailable):
					t.Fatalf("put %d: %v, want ErrUnknown or ErrUnavailable", i, err)
				}
				if (probe == nil) == (broken && (kind == errorfs.OpFileWrite || kind == errorfs.OpFileSyncData)) {
					t.Fatalf("probe %d: %v while the disk is broken: %v", i, probe, broken)
				}
				if got := contents(t, b); !maps.Equal(got, want) {
					t.Fatalf("after put %d: %v, want %v", i, got, want)
				}
			}
			put(t, b, "end", "1") // makes whatever failed before void
			final := contents(t, b)
			s.Close()
			if got := contents(t, bucket(t, open(t, mem, "d"), state.Retained)); !maps.Equal(got, final) {
				t.Fatalf("after reopening: %v, want %v", got, final)
			}
		})
	}
}

func TestDamageIsNeverTakenForAnEmptyEnd(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, fs, "d")
	b := bucket(t, s, state.Retained)
	for i := range 10 {
		put(t, b, fmt.Sprint("k", i), strings.Repeat("x", 100))
	}
	s.Close()
	name := "d/journal-00000000000000000001"
	stat, err := fs.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	file, err := fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt([]byte("????"), stat.Size()/2); err != nil {
		t.Fatal(err)
	}
	file.Close()
	_, err = memory.Open(memory.Options{Dir: "d", FS: fs, Durable: []string{state.Retained}})
	if err == nil || !strings.Contains(err.Error(), name) {
		t.Fatalf("open of a damaged journal: %v, want an error that names %s", err, name)
	}
}

func TestSnapshotsTakeTheJournalsPlace(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, fs, "d")
	b := bucket(t, s, state.Retained)
	value := strings.Repeat("v", 64<<10)
	var gone uint64
	for i := range 1200 { // about 75 MiB into 20 keys
		gone = put(t, b, fmt.Sprint("k", i%20), value+fmt.Sprint(i))
	}
	gone, err := b.Delete(t.Context(), "k19", gone)
	if err != nil {
		t.Fatal(err)
	}
	want := contents(t, b)
	s.Close()
	names, err := fs.List("d")
	if err != nil {
		t.Fatal(err)
	}
	var size int64
	snapshots := 0
	for _, name := range names {
		stat, err := fs.Stat("d/" + name)
		if err != nil {
			t.Fatal(err)
		}
		size += stat.Size()
		if strings.HasPrefix(name, "snapshot-") {
			snapshots++
		}
	}
	if snapshots != 1 || size > 32<<20 {
		t.Fatalf("%d snapshots, %d bytes in %v: want one and no more than the journal's least size and a half", snapshots, size, names)
	}
	s = open(t, fs, "d")
	b = bucket(t, s, state.Retained)
	if got := contents(t, b); !maps.Equal(got, want) {
		t.Fatalf("after reopening %d records differ from %d", len(got), len(want))
	}
	if next := put(t, b, "new", ""); next <= gone {
		t.Fatalf("revision %d after reopening, %d was the newest", next, gone)
	}
}

// TestKillLosesNothingAcknowledged kills a child process while it writes.
func TestKillLosesNothingAcknowledged(t *testing.T) {
	if dir := os.Getenv("STATE_MEMORY_CHILD"); dir != "" {
		writeUntilKilled(dir)
		return
	}
	dir := t.TempDir()
	for round := range 5 {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKillLosesNothingAcknowledged$")
		child.Env = append(os.Environ(), "STATE_MEMORY_CHILD="+dir)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		acked := map[string]int{}
		lines := bufio.NewScanner(out)
		for n := 0; n < 200+100*round && lines.Scan(); n++ {
			key, value, _ := strings.Cut(lines.Text(), " ")
			acked[key], _ = strconv.Atoi(value)
		}
		child.Process.Kill()
		for lines.Scan() { // what it said before it died counts
			key, value, _ := strings.Cut(lines.Text(), " ")
			if n, err := strconv.Atoi(value); err == nil && n > acked[key] {
				acked[key] = n
			}
		}
		child.Wait()
		s := open(t, nil, dir)
		got := contents(t, bucket(t, s, state.Retained))
		if len(acked) == 0 {
			t.Fatal("the child acknowledged nothing")
		}
		for key, value := range acked {
			var revision uint64
			stored := -1
			fmt.Sscan(got[key], &revision, &stored)
			if stored < value {
				t.Fatalf("round %d: %s was acknowledged at %d, after the kill it is %q", round, key, value, got[key])
			}
		}
		s.Close()
	}
}

func writeUntilKilled(dir string) {
	s, err := memory.Open(memory.Options{Dir: dir, Durable: []string{state.Retained}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	b, err := s.Bucket(context.Background(), state.Retained)
	if err != nil {
		os.Exit(1)
	}
	for w := range 4 {
		go func() {
			key := fmt.Sprint("k", w)
			value := 0
			if r, err := b.Get(context.Background(), key); err == nil {
				value, _ = strconv.Atoi(string(r.Value))
			}
			for {
				value++
				if _, err := b.Put(context.Background(), key, []byte(strconv.Itoa(value))); err != nil {
					os.Exit(1)
				}
				os.Stdout.WriteString(fmt.Sprintf("%s %d\n", key, value))
			}
		}()
	}
	select {}
}

func BenchmarkDurablePut(b *testing.B) {
	s := open(b, nil, b.TempDir())
	bucket := bucket(b, s, state.Retained)
	value := make([]byte, 300)
	var keys atomic.Uint64
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		key := fmt.Sprint("line/", keys.Add(1))
		for pb.Next() {
			if _, err := bucket.Put(context.Background(), key, value); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkDurableApply100(b *testing.B) {
	s := open(b, nil, b.TempDir())
	bucket := bucket(b, s, state.Retained)
	writes := make([]state.Write, 100)
	for i := range writes {
		writes[i] = state.Write{Op: state.OpPut, Key: fmt.Sprint("line/", i), Value: make([]byte, 300)}
	}
	for b.Loop() {
		for _, r := range bucket.Apply(b.Context(), writes) {
			if r.Err != nil {
				b.Fatal(r.Err)
			}
		}
	}
}

func BenchmarkVolatileUpdate(b *testing.B) {
	s := open(b, nil, b.TempDir())
	bucket := bucket(b, s, state.SessionCursor)
	value := make([]byte, 100)
	revision := put(b, bucket, "a", "1")
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if revision, err = bucket.Update(b.Context(), "a", value, revision); err != nil {
			b.Fatal(err)
		}
	}
}
