package kubernetes_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// rolled applies a change that replaces every pod, and holds that it went one
// replica at a time.
func (s *site) rolled(t *testing.T, what string, change map[string]any) {
	t.Helper()
	l := s.load(t)
	before := map[int]string{}
	for i := range 2 {
		before[i] = string(s.pod(t, i).UID)
	}
	fewest := s.fewestReady(t)
	began := time.Now()
	if err := s.release.apply(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	row(t, what+": every replica is new and ready", "-", time.Since(began))
	if n := fewest(); n < 1 {
		t.Errorf("for a moment %d replicas were ready: both were replaced at once", n)
	}
	for i := range 2 {
		if string(s.pod(t, i).UID) == before[i] {
			t.Errorf("%s was not replaced", s.podName(i))
		}
	}
	s.whole(t)
	row(t, what+": everything flows, once they are", "-", l.flows(t, time.Now()))
	row(t, what+": in all", "no false will, nothing lost", l.finish(t))
}

// fewestReady watches the replicas until it is called, and says how few were ready at
// once.
func (s *site) fewestReady(t *testing.T) func() int {
	t.Helper()
	stop, least := make(chan struct{}), make(chan int)
	go func() {
		fewest := 2
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				pods, err := cluster.pods(t.Context(), s.release.namespace, "uns")
				if err != nil {
					continue // the API server is busy; the next look is soon
				}
				ready := 0
				for i := range pods {
					if isReady(&pods[i]) {
						ready++
					}
				}
				fewest = min(fewest, ready)
			case <-stop:
				least <- fewest
				return
			}
		}
	}()
	return func() int { close(stop); return <-least }
}

func TestRowRollingUpgradeOfTheConfiguration(t *testing.T) {
	s := start(t)
	// The release keeps what it is given, so each run of this row changes it.
	budget := fmt.Sprintf("%dms", 20000+time.Now().UnixMilli()%1000)
	s.rolled(t, "rolling upgrade of the configuration", map[string]any{
		"uns": map[string]any{"mqtt": map[string]any{"embedded": map[string]any{"limits": map[string]any{"connectBudget": budget}}}}})
}

func TestRowRollingUpgradeOfTheImage(t *testing.T) {
	cluster.needLab(t)
	s := start(t)
	tag := fmt.Sprintf("e2e-%d", time.Now().Unix())
	cluster.lab(t, "images", "--broker-only", "--broker-tag", tag, "--release", "3.0.1")
	s.rolled(t, "rolling upgrade of the image", map[string]any{"uns": map[string]any{"image": map[string]any{"tag": tag}}})
	for i := range 2 {
		if said := cluster.mustRun(t, "kubectl", "-n", s.release.namespace, "exec", s.podName(i), "--", "/broker", "version"); !strings.Contains(said, "3.0.1") {
			t.Errorf("%s says that it is %q, not release 3.0.1", s.podName(i), strings.TrimSpace(said))
		}
	}
}
