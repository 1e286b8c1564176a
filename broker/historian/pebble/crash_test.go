package pebble

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/value"
)

// crashBatch makes batch number n of a sender: three values, timed and not, whose
// topic and time tell the batch. The same number gives the same batch again.
func crashBatch(sender, n int) []*value.Value {
	var values []*value.Value
	for i := range 3 {
		v := &value.Value{
			Workspace: "acme", Topic: fmt.Sprintf("sender/%d", sender), Publisher: "p", Quality: value.Good,
			Timestamp: int64(1_790_000_000_000_000_000 + n*1_000_000_000 + i), Timed: i != 1,
			Body: fmt.Appendf(nil, "%d.%d", n, i),
		}
		if !v.Timed {
			v.RowID = uint64(sender)<<32 | uint64(n)<<2 | 1
		}
		values = append(values, v)
	}
	return values
}

// acknowledged is what senders were told, by sender: the Positions of each batch.
type acknowledged struct {
	mu   sync.Mutex
	sent map[int][][]uint64
}

func (a *acknowledged) add(sender int, values []*value.Value) {
	a.mu.Lock()
	defer a.mu.Unlock()
	positions := make([]uint64, len(values))
	for i, v := range values {
		positions[i] = v.Position
	}
	a.sent[sender] = append(a.sent[sender], positions)
}

func (a *acknowledged) copy() map[int][][]uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := make(map[int][][]uint64)
	for sender, batches := range a.sent {
		c[sender] = append([][]uint64(nil), batches...)
	}
	return c
}

// checkRecovered holds a reopened store against what was acknowledged.
func checkRecovered(t *testing.T, h *Historian, acked map[int][][]uint64) {
	t.Helper()
	highest := uint64(0)
	for sender, batches := range acked {
		rows := readAll(t, h, fmt.Sprintf("sender/%d", sender))
		if len(rows)%3 != 0 {
			t.Fatalf("sender %d: %d rows, not whole batches of 3", sender, len(rows))
		}
		if len(rows) < 3*len(batches) {
			t.Fatalf("sender %d: %d batches were acknowledged, %d rows are there", sender, len(batches), len(rows))
		}
		for n := range len(rows) / 3 {
			for i, v := range crashBatch(sender, n) {
				r := rows[3*n+i]
				if r.Timestamp != v.Timestamp || string(r.Body) != string(v.Body) {
					t.Fatalf("sender %d batch %d: row %+v, want body %s", sender, n, r, v.Body)
				}
				if n < len(batches) && r.Position != batches[n][i] {
					t.Fatalf("sender %d batch %d value %d: Position %d, acknowledged with %d", sender, n, i, r.Position, batches[n][i])
				}
				highest = max(highest, r.Position)
			}
		}
		// What a sender repeats is found, what it had not sent gets a new Position.
		if n := len(batches); n > 0 {
			again := crashBatch(sender, n-1)
			mustAppend(t, h, again...)
			for i, v := range again {
				if v.Timed && v.Position != batches[n-1][i] {
					t.Fatalf("sender %d batch %d repeated: Position %d, was %d", sender, n-1, v.Position, batches[n-1][i])
				}
				batches[n-1][i] = v.Position // of an untimed one, a new one
			}
			if got := len(readAll(t, h, fmt.Sprintf("sender/%d", sender))); got != len(rows) {
				t.Fatalf("sender %d: %d rows after a repeated batch, %d before", sender, got, len(rows))
			}
		}
	}
	v := crashBatch(99, int(highest))[0] // one not sent before
	mustAppend(t, h, v)
	if v.Position <= highest {
		t.Fatalf("a new value has Position %d, %d was given out before", v.Position, highest)
	}
}

func readAll(t testing.TB, h *Historian, filter string) []historian.Row {
	t.Helper()
	var rows []historian.Row
	q := historian.Query{Workspace: "acme", Topic: filter, To: 1<<63 - 1, Limit: historian.MaxLimit}
	for {
		p, err := h.Read(context.Background(), q)
		if err != nil {
			t.Fatalf("read %s: %v", filter, err)
		}
		rows = append(rows, p.Rows...)
		if q.After = p.Next; p.Next == "" {
			return rows
		}
	}
}

func mustAppend(t testing.TB, h *Historian, values ...*value.Value) {
	t.Helper()
	if err := h.Append(context.Background(), values); err != nil {
		t.Fatalf("append: %v", err)
	}
}

func TestAcknowledgedValuesSurvivePowerLossAtAnyMoment(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	disk := vfs.NewCrashableMem()
	acked := map[int][][]uint64{}
	for range 8 { // lives of the store, each ended by a power loss
		h := open(t, "history", Options{FS: disk})
		a := &acknowledged{sent: acked}
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		before := a.copy() // senders add to what others begin with
		for sender := range 4 {
			wg.Go(func() {
				for n := len(before[sender]); ; n++ {
					values := crashBatch(sender, n)
					if h.Append(ctx, values) != nil {
						return
					}
					a.add(sender, values)
				}
			})
		}
		appended := func() (n int) {
			for _, batches := range a.copy() {
				n += len(batches)
			}
			return n
		}
		for target := appended() + 20 + random.IntN(300); appended() < target; {
			if random.IntN(50) == 0 {
				_ = h.flushForTest()
			}
		}
		survivors := a.copy()
		clone := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: random.IntN(101), RNG: random})
		cancel()
		wg.Wait()
		if err := h.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
		disk, acked = clone, survivors
		h = open(t, "history", Options{FS: disk})
		checkRecovered(t, h, acked)
		// The batches that were on their way count as well from here on.
		for sender := range acked {
			rows := readAll(t, h, fmt.Sprintf("sender/%d", sender))
			acked[sender] = nil
			for n := range len(rows) / 3 {
				acked[sender] = append(acked[sender], []uint64{rows[3*n].Position, rows[3*n+1].Position, rows[3*n+2].Position})
			}
		}
		if err := h.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
	}
}

// flushForTest writes the memtable out.
func (h *Historian) flushForTest() error {
	h.mu.Lock()
	g := h.current
	h.mu.Unlock()
	if g == nil || !g.acquire() {
		return errClosed
	}
	defer g.release()
	return g.db.Flush()
}

// childDir tells the test binary that it is the child of the test below.
const childDir = "HISTORIAN_TEST_CHILD_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		appendUntilKilled(dir)
	}
	os.Exit(m.Run())
}

// appendUntilKilled appends batches from four senders and prints each
// acknowledgment, until the process is killed.
func appendUntilKilled(dir string) {
	h, err := Open(dir, Options{})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	var mu sync.Mutex
	out := bufio.NewWriter(os.Stdout)
	var wg sync.WaitGroup
	for sender, first := range strings.Split(os.Getenv(childDir+"_FROM"), ",") {
		n, err := strconv.Atoi(first)
		if err != nil {
			os.Exit(1)
		}
		wg.Go(func() {
			for ; ; n++ {
				values := crashBatch(sender, n)
				if err := h.Append(context.Background(), values); err != nil {
					fmt.Println("error", err)
					os.Exit(1)
				}
				mu.Lock()
				fmt.Fprintf(out, "ack %d %d %d %d %d\n", sender, n, values[0].Position, values[1].Position, values[2].Position)
				_ = out.Flush()
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

func TestAcknowledgedValuesSurviveKillNine(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "history")
	acked := map[int][][]uint64{0: nil, 1: nil, 2: nil, 3: nil}
	for life := range 8 {
		var from []string
		for sender := range 4 {
			from = append(from, strconv.Itoa(len(acked[sender])))
		}
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childDir+"="+dir, childDir+"_FROM="+strings.Join(from, ","))
		child.Stderr = os.Stderr
		stdout, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(stdout)
		kill := 20 + rand.IntN(400)
		for n := 0; lines.Scan(); n++ {
			var sender, batch int
			var p [3]uint64
			if _, err := fmt.Sscanf(lines.Text(), "ack %d %d %d %d %d", &sender, &batch, &p[0], &p[1], &p[2]); err != nil {
				// The last line may be cut by the kill; anything else is the child's error.
				if n < kill {
					t.Fatalf("life %d: the child says %q", life, lines.Text())
				}
				break
			}
			if batch != len(acked[sender]) {
				t.Fatalf("life %d: sender %d acknowledged batch %d, expected %d", life, sender, batch, len(acked[sender]))
			}
			acked[sender] = append(acked[sender], p[:])
			if n == kill {
				if err := child.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = child.Wait()
		h := open(t, dir, Options{})
		checkRecovered(t, h, acked)
		for sender := range acked { // unacknowledged ones that landed
			rows := readAll(t, h, fmt.Sprintf("sender/%d", sender))
			for n := len(acked[sender]); n < len(rows)/3; n++ {
				acked[sender] = append(acked[sender], []uint64{rows[3*n].Position, rows[3*n+1].Position, rows[3*n+2].Position})
			}
			for i := range rows { // repeats of untimed values have a new Position
				acked[sender][i/3][i%3] = rows[i].Position
			}
		}
		if err := h.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
	}
}
