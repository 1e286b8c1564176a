package timescale

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/value"
)

func TestUnknownOutcomeIsStoredOnce(t *testing.T) {
	t.Parallel()
	p, url := newProxy(t, shared, database(t, shared))
	h := open(t, url, Options{})
	now := time.Now()
	untimed := func(i int, body string) *value.Value {
		v := at("a", now.Add(time.Duration(i)*time.Microsecond), body)
		v.Timed, v.RowID = false, uint64(i)
		return v
	}
	mustAppend(t, h, untimed(1, "first")) // the topic has its number now
	p.set(func(p *proxy) { p.swallow = true })
	batch := []*value.Value{untimed(2, "second"), untimed(3, "third"), at("a", now.Add(time.Second), "fourth")}
	mustAppend(t, h, batch...)
	if p.cutCount() != 1 {
		t.Fatalf("%d connections were cut after the commit, want 1", p.cutCount())
	}
	page, err := h.Read(t.Context(), historian.Query{Workspace: "acme", Topic: "a", To: 1<<63 - 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Rows) != 4 {
		t.Fatalf("%d rows, want 4", len(page.Rows))
	}
	for i, v := range batch {
		if r := page.Rows[i+1]; string(r.Body) != string(v.Body) || r.Position != v.Position {
			t.Errorf("row %d is %s at Position %d, its writer was told %d", i+1, r.Body, r.Position, v.Position)
		}
	}
}

func TestConnectionsCutAnywhereLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	p, url := newProxy(t, shared, database(t, shared))
	direct := open(t, shared.URL(databaseName(t)), Options{})
	h := open(t, url, Options{})
	p.set(func(p *proxy) { p.budget = func() int { return 400 + random.IntN(3000) } })
	stop := make(chan struct{})
	wait := keepAppending(t, h, 2, stop)
	for p.cutCount() < 40 && !t.Failed() {
		untilMore(t, direct, 20)
	}
	close(stop)
	expectExactly(t, direct, wait())
}

func TestReplicasStoreTheSameValuesOnce(t *testing.T) {
	t.Parallel()
	url := database(t, shared)
	const replicas, rounds, size = 3, 8, 600
	now := time.Now()
	var hs [replicas]*Historian
	for n := range replicas {
		hs[n] = open(t, url, Options{})
	}
	positions := make([][]uint64, replicas)
	for n := range positions {
		positions[n] = make([]uint64, rounds*size)
	}
	for round := range rounds {
		var wg sync.WaitGroup
		for n, h := range hs {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(uint64(n), uint64(round)))
				// The same values in another order: what makes two statements wait for
				// each other for ever if nothing is done about it.
				var batch []*value.Value
				for _, i := range random.Perm(size) {
					batch = append(batch, at(fmt.Sprintf("t/%d", i%7), now.Add(time.Duration(round*size+i)*time.Millisecond), fmt.Sprint(round*size+i)))
				}
				if err := h.Append(t.Context(), batch); err != nil {
					t.Errorf("replica %d: %v", n, err)
				}
				for _, v := range batch {
					i, err := strconv.Atoi(string(v.Body))
					if err != nil {
						t.Error(err)
						return
					}
					positions[n][i] = v.Position
				}
			})
		}
		wg.Wait()
	}
	if t.Failed() {
		return
	}
	for n := range replicas {
		if !slices.Equal(positions[n], positions[0]) {
			t.Errorf("replicas 0 and %d were told different Positions of the same values", n)
		}
	}
	if n := number(t, url, "SELECT count(*)::int FROM maestrohub.value"); n != rounds*size {
		t.Errorf("%d rows, want %d", n, rounds*size)
	}
	if strings.Contains(shared.Output(), "deadlock detected") {
		t.Error("statements of replicas waited for each other")
	}
}

// A value that is sent once another one was acknowledged has the greater Position,
// also at another replica: retained messages are decided by it.
func TestPositionsFollowAcknowledgmentsAcrossReplicas(t *testing.T) {
	t.Parallel()
	url := database(t, shared)
	replicas := []*Historian{open(t, url, Options{}), open(t, url, Options{}), open(t, url, Options{})}
	last := uint64(0)
	now := time.Now()
	for i := range 60 {
		v := at("a", now.Add(-time.Duration(i)*time.Second), fmt.Sprint(i))
		mustAppend(t, replicas[i%3], v)
		if v.Position <= last {
			t.Fatalf("value %d, stored by replica %d: Position %d after %d", i, i%3, v.Position, last)
		}
		last = v.Position
	}
}

func TestBatchLargerThanABlockIsStoredWholeAndInOrder(t *testing.T) {
	t.Parallel()
	h := open(t, database(t, shared), Options{})
	now := time.Now()
	var batch []*value.Value
	for i := range 2*positionBlock + 10 {
		batch = append(batch, at(fmt.Sprintf("t/%d", i%3), now.Add(-time.Duration(i)*time.Microsecond), fmt.Sprint(i)))
		if i%1000 == 0 {
			batch = append(batch, batch[len(batch)-1])
		}
	}
	mustAppend(t, h, batch[:100]...) // there already
	mustAppend(t, h, batch...)
	for i := 101; i < len(batch); i++ {
		if a, b := batch[i-1], batch[i]; a != b && a.Position >= b.Position {
			t.Fatalf("values %d and %d have Positions %d and %d", i-1, i, a.Position, b.Position)
		}
	}
	if got := len(bodies(t, h, "#")); got != 2*positionBlock+10 {
		t.Fatalf("%d rows, want %d", got, 2*positionBlock+10)
	}
}
