package topic

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// TestIndexAgreesWithMatch changes an index at random and compares it with a
// plain list of filters after every few changes.
func TestIndexAgreesWithMatch(t *testing.T) {
	type subscription struct {
		filter string
		key    int
	}
	random := rand.New(rand.NewPCG(1, 2))
	levels := []string{"a", "b", "", "$a", "+", "+", "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9"}
	path := func(wild bool) string {
		var parts []string
		for range 1 + random.IntN(4) {
			l := levels[random.IntN(len(levels))]
			if l == "+" && !wild {
				l = "d"
			}
			parts = append(parts, l)
		}
		if wild && random.IntN(4) == 0 {
			parts = append(parts, "#")
		}
		if p := strings.Join(parts, "/"); p != "" {
			return p
		}
		return "a"
	}
	var x Index[int, int]
	plain := map[subscription]int{}
	for step := range 60_000 {
		s := subscription{path(true), random.IntN(12)}
		// Grow for a while, then shrink.
		if grow := step%20_000 < 8_000; random.IntN(10) < 3 != grow {
			old, replaced := x.Set(s.filter, s.key, step)
			if was, had := plain[s]; had != replaced || was != old {
				t.Fatalf("Set(%q, %d) returned %d, %v; it was %d, %v", s.filter, s.key, old, replaced, was, had)
			}
			plain[s] = step
		} else {
			for s = range plain { // one that is there
				break
			}
			old, ok := x.Delete(s.filter, s.key)
			if was, had := plain[s]; had != ok || was != old {
				t.Fatalf("Delete(%q, %d) returned %d, %v; it was %d, %v", s.filter, s.key, old, ok, was, had)
			}
			delete(plain, s)
			if _, ok := x.Delete(s.filter, s.key); ok {
				t.Fatalf("Delete(%q, %d) succeeds twice", s.filter, s.key)
			}
		}
		if x.Len() != len(plain) {
			t.Fatalf("Len() = %d, want %d", x.Len(), len(plain))
		}
		if step%50 != 0 {
			continue
		}
		name := path(false)
		want, got := map[[2]int]int{}, map[[2]int]int{}
		for s, v := range plain {
			if Match(s.filter, name) {
				want[[2]int{s.key, v}]++
			}
		}
		x.Match(name, func(key, v int) { got[[2]int{key, v}]++ })
		if !maps.Equal(got, want) {
			t.Fatalf("after %d changes %q reaches %v, want %v", step, name, got, want)
		}
	}
	for s := range plain {
		x.Delete(s.filter, s.key)
	}
	if x.Len() != 0 || !x.root.empty() {
		t.Errorf("an emptied index holds %d entries, root %+v", x.Len(), x.root)
	}
}

func TestGenerationMovesWithEveryChange(t *testing.T) {
	var x Index[string, int]
	last := x.Generation()
	moved := func(what string, want bool) {
		t.Helper()
		if now := x.Generation(); now != last != want {
			t.Errorf("%s: generation %d after %d", what, now, last)
		} else {
			last = now
		}
	}
	x.Set("a/#", "k", 1)
	moved("set", true)
	x.Set("a/#", "k", 1)
	moved("set again", true)
	x.Match("a", func(string, int) {})
	moved("match", false)
	x.Delete("a/+", "k")
	moved("delete of nothing", false)
	x.Delete("a/#", "k")
	moved("delete", true)
}

func TestBelowAWorkspaceTheDollarIsALevelLikeAnyOther(t *testing.T) {
	for _, filter := range []string{"#", "+/x", "$a/+"} {
		var x Index[int, int]
		x.Set(filter, 1, 1)
		found := 0
		x.MatchBelow("$a/x", func(int, int) { found++ })
		if found != 1 || !MatchBelow(filter, "$a/x") {
			t.Errorf("below a workspace %q does not match $a/x", filter)
		}
	}
}

func TestIndexTakesChangesAndMatchesAtOnce(t *testing.T) {
	var x Index[int, string]
	x.Set("plant/+/steady/#", -1, "steady")
	var changers, readers sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				steady := 0
				x.Match("plant/1/steady", func(key int, v string) {
					if key == -1 && v == "steady" {
						steady++
					}
				})
				if steady != 1 {
					t.Errorf("a filter nobody changes is found %d times", steady)
					return
				}
				x.Generation()
				x.Len()
			}
		})
	}
	for w := range 4 {
		changers.Go(func() {
			filters := []string{"plant/+/steady", "plant/1/#", "#", "plant/1/steady", fmt.Sprintf("plant/%d/x", w)}
			for i := range 2_000 {
				x.Set(filters[i%5], w, "v")
				x.Delete(filters[(i+3)%5], w)
			}
			for _, f := range filters {
				x.Delete(f, w)
			}
		})
	}
	changers.Wait()
	close(stop)
	readers.Wait()
	if x.Len() != 1 {
		t.Errorf("%d entries are left, want the steady one", x.Len())
	}
}

// plant returns filters as a plant's clients subscribe to: each line has its
// own, some take a level whole.
func plantFilters(n int) []string {
	filters := make([]string, n)
	for i := range filters {
		switch line := i / 10; i % 10 {
		case 0:
			filters[i] = fmt.Sprintf("mHv1.0/plant/line-%d/#", line)
		case 1:
			filters[i] = fmt.Sprintf("mHv1.0/plant/+/+/tag-%d", line)
		default:
			filters[i] = fmt.Sprintf("mHv1.0/plant/line-%d/cell-%d/temperature", line, i%10)
		}
	}
	return filters
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestIndexMemoryIsLeanAndComesBack(t *testing.T) {
	const n = 20_000
	filters := plantFilters(n)
	for i := range filters {
		filters[i] = strings.Clone(filters[i])
	}
	x := &Index[string, byte]{}
	before := heap()
	for _, f := range filters {
		x.Set(f, "client", 1)
	}
	full := heap()
	each := (full - before) / n
	t.Logf("%d bytes for each of %d filters with one subscriber", each, n)
	if each > 400 {
		t.Errorf("a filter of one subscriber costs %d bytes, want at most 400", each)
	}
	for _, f := range filters {
		x.Delete(f, "client")
	}
	if left := heap() - before; left > (full-before)/20 {
		t.Errorf("%d of %d bytes are kept by an emptied index", left, full-before)
	}
	for i := range 10_000 {
		x.Set("all", fmt.Sprint(i), 1)
	}
	for i := range 10_000 - 1 {
		x.Delete("all", fmt.Sprint(i))
	}
	if left := heap() - before; left > 64<<10 {
		t.Errorf("a filter keeps %d bytes after 9,999 of its 10,000 subscribers left", left)
	}
	runtime.KeepAlive(filters)
	runtime.KeepAlive(x)
}

func TestIndexMatchDoesNotAllocate(t *testing.T) {
	var x Index[string, int]
	for i, f := range plantFilters(1_000) {
		x.Set(f, "client", i)
	}
	sum := 0
	n := testing.AllocsPerRun(100, func() {
		x.Match("mHv1.0/plant/line-7/cell-5/temperature", func(_ string, v int) { sum += v })
	})
	if n != 0 || sum == 0 {
		t.Errorf("Match allocates %v times, sum %d", n, sum)
	}
}

func BenchmarkIndexMatch(b *testing.B) {
	var x Index[string, int]
	for i, f := range plantFilters(10_000) {
		x.Set(f, "client", i)
	}
	names := make([]string, 512)
	for i := range names {
		names[i] = fmt.Sprintf("mHv1.0/plant/line-%d/cell-%d/temperature", i, 2+i%8)
	}
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		found, i := 0, 0
		for b.Loop() {
			x.Match(names[i&511], func(string, int) { found++ })
			i++
		}
		if found == 0 {
			b.Fatal("nothing found")
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			found, i := 0, 0
			for pb.Next() {
				x.Match(names[i&511], func(string, int) { found++ })
				i++
			}
		})
	})
}

func BenchmarkIndexSetDelete(b *testing.B) {
	var x Index[string, int]
	filters := plantFilters(20_000)
	for i, f := range filters[:10_000] {
		x.Set(f, "client", i)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		f := filters[10_000+i%10_000]
		x.Set(f, "client", i)
		x.Delete(f, "client")
		i++
	}
}

func BenchmarkMatch(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if !Match("mHv1.0/plant/+/+/temperature", "mHv1.0/plant/line-7/cell-5/temperature") {
			b.Fatal("no match")
		}
	}
}
