package jetstream_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"maestrohub.io/uns/broker/state/statetest"
)

// churn harms one server after the other, never two at once, until stopped.
type churn struct {
	t      *testing.T
	site   *site
	mu     sync.Mutex
	events []string
}

func (c *churn) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

func (c *churn) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.events)
}

// run goes through kill -9, SIGSTOP and step-downs.
func (c *churn) run(ctx context.Context) {
	for i := rand.IntN(3); ctx.Err() == nil; i++ {
		s := c.site.Servers[rand.IntN(len(c.site.Servers))]
		switch i % 3 {
		case 0:
			c.note("kill %s", s.Name)
			s.Kill()
			wait(ctx, 3*time.Second)
			if err := s.Start(); err != nil {
				c.t.Error(err)
				return
			}
		case 1:
			c.note("pause %s", s.Name)
			if err := s.Pause(); err != nil {
				c.t.Error(err)
				return
			}
			wait(ctx, 6*time.Second)
			if err := s.Resume(); err != nil {
				c.t.Error(err)
				return
			}
		case 2:
			c.stepDowns(ctx)
		}
		ready, cancel := context.WithTimeout(context.Background(), time.Minute)
		if err := c.site.Ready(ready); err != nil {
			c.t.Error(err)
		}
		cancel()
		wait(ctx, time.Second)
	}
}

// stepDowns moves the leaders of all streams of all accounts in use.
func (c *churn) stepDowns(ctx context.Context) {
	n := 0
	for a := range min(c.site.used.Load(), c.site.accounts) {
		nc, err := nats.Connect(c.site.URL(fmt.Sprintf("T%d", a)))
		if err != nil {
			continue
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		for _, name := range streams(short, nc) {
			if c.site.StepDown(short, nc, name) == nil {
				n++
			}
		}
		cancel()
		nc.Close()
	}
	c.note("step down, %d leaders", n)
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// churnFor is how long servers are harmed; JETSTREAM_CHURN makes it longer.
func churnFor(t *testing.T) time.Duration {
	d := 25 * time.Second
	if s := os.Getenv("JETSTREAM_CHURN"); s != "" {
		var err error
		if d, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// start begins the churn; the returned function ends it.
func startChurn(t *testing.T, s *site) (c *churn, stop func()) {
	c = &churn{t: t, site: s}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.run(ctx)
	}()
	return c, func() {
		cancel()
		<-done
	}
}

func TestTheLawsHoldWhileServersDie(t *testing.T) {
	t.Parallel()
	site := ownSite(t, 400)
	c, stop := startChurn(t, site)
	t.Cleanup(func() {
		stop()
		c.mu.Lock()
		defer c.mu.Unlock()
		t.Logf("churn:\n%s", strings.Join(c.events, "\n"))
	})
	end := time.Now().Add(churnFor(t))
	var wg sync.WaitGroup
	for _, promise := range []string{
		"of rivals for one revision exactly one wins",
		"apply decides each write on its own",
		"no change is missing while many write",
		"batches of many writers are whole and each writer's in order",
		"a tail gives every entry in order, slow or fast",
		"one holds a lock at a time",
	} {
		wg.Go(func() { // not t.Parallel: all at once, however few the processors
			for round := 1; time.Now().Before(end); round++ {
				t.Run(fmt.Sprintf("%s/%d", strings.ReplaceAll(promise, " ", "_"), round), func(t *testing.T) {
					statetest.Run(t, site.opener(bounds), statetest.Options{
						LogMaxBytes: logMaxBytes, Patience: time.Minute,
						Only: func(p string) bool { return p == promise },
					})
				})
			}
		})
	}
	wg.Wait()
}
