package ingest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/historian/pebble"
	"maestrohub.io/uns/broker/model"
	"maestrohub.io/uns/broker/retained"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/memory"
	"maestrohub.io/uns/broker/value"
)

// counted is a Completion that waits for a number of outcomes.
type counted struct {
	mu      sync.Mutex
	cond    *sync.Cond
	done    int
	refused map[Refusal]int
}

func newCounted() *counted {
	c := &counted{refused: make(map[Refusal]int)}
	c.cond = sync.NewCond(&c.mu)
	return c
}

func (c *counted) Complete(_ uint64, o Outcome) {
	c.mu.Lock()
	c.done++
	if o.Refusal != 0 {
		c.refused[o.Refusal]++
	}
	c.mu.Unlock()
}

func (c *counted) Flush() { c.cond.Broadcast() }

// waitFor returns once there are n outcomes.
func (c *counted) waitFor(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.done < n {
		c.cond.Wait()
	}
}

func TestValuesGoThroughTheRealStores(t *testing.T) {
	m, err := model.Parse([]byte(testModel))
	if err != nil {
		t.Fatal(err)
	}
	history, err := pebble.Open("history", pebble.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer history.Close()
	store, err := memory.Open(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	kept, err := retained.Open(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	live := &audience{}
	live.want(func(v *value.Value) bool { return strings.HasPrefix(v.Topic, "kept/") })
	i := New(Options{Model: func() *model.Model { return m }, Historian: history, Logs: store, Retained: kept, Live: live, Wanted: live, LiveQoS: 1})

	const devices, each = 8, 500
	var publishing sync.WaitGroup
	done := newCounted()
	for d := range devices {
		publishing.Go(func() {
			client := fmt.Sprint("device-", d)
			g := access.GrantsFor(client, "acme")
			for n := range each {
				name := "mHv1.0/acme/_ingress/" + client + []string{"/kept/", "/plain/"}[n%2] + client
				i.Publish(Publish{Name: name, QoS: byte(n % 3), Payload: fmt.Append(nil, n), ClientID: client, Grants: g, Done: done, Slot: uint64(n)})
			}
		})
	}
	publishing.Wait()
	done.waitFor(devices * each)
	if err := i.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(done.refused) > 0 {
		t.Fatalf("refused: %v", done.refused)
	}
	page, err := history.Read(t.Context(), historian.Query{Workspace: "acme", Topic: "#", To: 1 << 62, Limit: historian.MaxLimit})
	if err != nil || len(page.Rows) != devices*each {
		t.Fatalf("history has %d rows (%v), want %d", len(page.Rows), err, devices*each)
	}
	if n := len(live.data()); n != devices*each {
		t.Errorf("%d live copies, want %d", n, devices*each)
	}
	log, err := store.Log(t.Context(), "ws-acme")
	if err != nil {
		t.Fatal(err)
	}
	last := make(map[string]int)
	entries := readAll(t, log)
	for _, e := range entries {
		v, err := value.DecodeRecord(e.Data)
		if err != nil {
			t.Fatal(err)
		}
		var n int
		fmt.Sscan(string(v.Body), &n)
		if before, ok := last[v.Publisher]; ok && n <= before {
			t.Errorf("log: %d of %s after %d", n, v.Publisher, before)
		}
		last[v.Publisher] = n
	}
	if len(entries) != devices*each/2 {
		t.Errorf("log has %d records, want %d", len(entries), devices*each/2)
	}
	for d := range devices {
		name := fmt.Sprint("mHv1.0/acme/kept/device-", d)
		if v := kept.Get(name); v == nil || string(v.Body) != fmt.Sprint(each-2) {
			t.Errorf("retained message of %s: %v, want %d", name, v, each-2)
		}
	}
}

func readAll(t *testing.T, log state.Log) (entries []state.Entry) {
	t.Helper()
	for from := uint64(1); ; {
		n := len(entries)
		var err error
		if entries, err = log.Read(context.Background(), from, 1000, entries); err != nil {
			t.Fatal(err)
		}
		if len(entries) == n {
			return entries
		}
		from = entries[len(entries)-1].Sequence + 1
	}
}
