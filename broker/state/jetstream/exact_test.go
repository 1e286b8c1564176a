package jetstream_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"maestrohub.io/uns/broker/state"
)

// Every append that returned without ErrUnknown stands in the log once, every
// writer's in order, and both replicas' tails show the same, while the servers
// are killed, hung and deposed under load.
func TestAppendsLandOnceAndInOrderWhileServersDie(t *testing.T) {
	t.Parallel()
	site := ownSite(t, 1)
	account := site.account(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	var logs []state.Log
	for range 2 {
		log, err := site.open(t, account, nil).Log(ctx, "ws")
		if err != nil {
			t.Fatal(err)
		}
		logs = append(logs, log)
	}
	c, stop := startChurn(t, site)
	end := time.Now().Add(churnFor(t))
	const writers = 3
	var mu sync.Mutex
	sent := map[string]int{} // records of each writer
	longest := time.Duration(0)
	var wg sync.WaitGroup
	for r, log := range logs {
		for w := range writers {
			wg.Go(func() {
				name := fmt.Sprintf("%d.%d", r, w)
				n := 0
				for time.Now().Before(end) {
					var batch [][]byte
					for range 1 + n%40 {
						batch = append(batch, fmt.Appendf(nil, "%s %d %s", name, n, strings.Repeat("x", 200)))
						n++
					}
					if n%1000 < 40 { // larger than a message
						for range 3 {
							batch = append(batch, fmt.Appendf(nil, "%s %d %s", name, n, strings.Repeat("x", 500<<10)))
							n++
						}
					}
					begin := time.Now()
					if _, err := log.Append(ctx, batch); err != nil {
						t.Errorf("append of writer %s: %v", name, err)
						break
					}
					mu.Lock()
					longest = max(longest, time.Since(begin))
					sent[name] = n
					mu.Unlock()
				}
			})
		}
	}
	var seen [2][]string
	var tails sync.WaitGroup
	read := make(chan struct{})
	for r, log := range logs {
		tails.Go(func() {
			tail := log.Tail(0)
			defer tail.Stop()
			for {
				entries, err := tail.Next(ctx)
				if err != nil {
					t.Errorf("tail: %v", err)
					return
				}
				for _, e := range entries {
					text := string(e.Data[:min(len(e.Data), 20)])
					if text == "end" {
						return
					}
					name, rest, _ := strings.Cut(text, " ")
					number, _, _ := strings.Cut(rest, " ")
					seen[r] = append(seen[r], name+" "+number)
				}
			}
		})
	}
	go func() { tails.Wait(); close(read) }()
	wg.Wait()
	stop()
	if _, err := logs[0].Append(ctx, [][]byte{[]byte("end")}); err != nil {
		t.Fatal(err)
	}
	<-read
	total := 0
	for r := range logs {
		next := map[string]int{}
		for i, text := range seen[r] {
			var name string
			var n int
			if _, err := fmt.Sscan(text, &name, &n); err != nil {
				t.Fatalf("entry %d: %v", i, err)
			}
			if n != next[name] {
				t.Fatalf("replica %d, entry %d: record %d of writer %s, want %d; churn:\n%s", r, i, n, name, next[name], strings.Join(c.events, "\n"))
			}
			next[name]++
		}
		total = 0
		for name, n := range sent {
			if next[name] != n {
				t.Errorf("replica %d saw %d records of writer %s, %d were appended", r, next[name], name, n)
			}
			total += n
		}
	}
	t.Logf("%d records through %d events, longest append %v; churn:\n%s", total, c.count(), longest.Round(time.Millisecond), strings.Join(c.events, "\n"))
}
