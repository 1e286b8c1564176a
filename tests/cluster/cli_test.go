package cluster_test

import (
	"context"
	"encoding/json"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tools/launch"
)

// TestTheLocalClusterAsAPersonUsesIt is `make cluster REPLICAS=3` and every command of
// it, while `localcluster check` has devices publish: any replica and any one NATS
// server is killed, and the checker says that nothing was lost.
func TestTheLocalClusterAsAPersonUsesIt(t *testing.T) {
	if shared != nil { // the machine is to have one cluster at a time
		if err := shared.Close(); err != nil {
			t.Fatal(err)
		}
		shared = nil
	}
	program, err := launch.Build(".", "./tools/localcluster", "localcluster")
	if err != nil {
		t.Fatal(err)
	}
	if *binary == "" {
		*binary = harness.Binary(t)
	}
	next, err := launch.BuildBroker("-tags=nextrelease")
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "s")
	run := func(fails string, words ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		out, err := exec.CommandContext(ctx, program, append([]string{"--socket", socket}, words...)...).CombinedOutput()
		if (err != nil) != (fails != "") || !strings.Contains(string(out), fails) {
			t.Fatalf("localcluster %s: error %v, want %q; it printed:\n%s", strings.Join(words, " "), err, fails, out)
		}
		return string(out)
	}
	run("no local cluster listens", "status")
	up := harness.Program(t, launch.Spec{Name: "localcluster up", Path: program, Args: []string{"--socket", socket, "up", "--replicas", "3", "--binary", *binary}})
	greeted, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for !strings.Contains(up.Output(), "Break it") {
		select {
		case <-greeted.Done():
			t.Fatalf("it does not come up; it printed:\n%s", up.Output())
		case <-up.Exited():
			t.Fatalf("it ended; it printed:\n%s", up.Output())
		case <-time.After(100 * time.Millisecond):
		}
	}
	run("runs already", "up")
	var place struct {
		HTTP           []string
		Client, Secret string
	}
	if err := json.Unmarshal([]byte(run("", "place")), &place); err != nil || len(place.HTTP) != 3 {
		t.Fatalf("place: %v, %+v", err, place)
	}
	status := func(what string, want ...string) {
		t.Helper()
		until(t, time.Minute, what, func() (bool, string) {
			s := run("", "status")
			for _, w := range want {
				if !strings.Contains(strings.Join(strings.Fields(s), " "), w) {
					return false, s
				}
			}
			return true, ""
		})
	}
	whole := func() {
		t.Helper()
		status("everything to run", "uns-0 ready", "uns-1 ready", "uns-2 ready", "nats-0 runs", "nats-1 runs", "nats-2 runs", "postgres runs")
	}
	whole()
	check := harness.Program(t, launch.Spec{Name: "localcluster check", Path: program, Args: []string{"--socket", socket, "check"}})
	until(t, time.Minute, "the check to begin", func() (bool, string) { return strings.Contains(check.Output(), "publish on"), check.Output() })

	for _, replica := range []string{"uns-0", "uns-1", "uns-2"} {
		run("", "kill", replica)
		status(replica+" to be away", replica+" does not run")
		run("it does not run", "kill", replica)
		run("", "start", replica)
		run("it runs already", "start", replica)
		whole()
	}
	for _, server := range []string{"nats-0", "nats-1", "nats-2"} {
		run("", "kill", server)
		stay(time.Second)
		run("", "restart", server)
		whole()
	}
	run("", "stop", "uns-1")
	run("", "restart", "uns-1")
	run("", "pause", "uns-2")
	status("the paused one to be so", "uns-2 paused")
	run("", "resume", "uns-2")
	run("", "cut", "uns-0/uns-2")
	status("the way to be cut", "uns-0/uns-2 cut")
	run("", "freeze", "uns-1/mesh")
	run("", "heal")
	run("", "slow", "nats", "500ms")
	status("NATS to be slow", "nats held 500ms")
	run("", "heal", "nats")
	run("", "cut", "uns-1/nats")
	status("it to have fenced", "uns-1 not ready")
	run("", "heal", "uns-1/nats")
	whole()
	for _, replica := range []string{"uns-0", "uns-1", "uns-2"} {
		run("", "upgrade", replica, next)
	}
	whole()
	if log := run("", "log", "uns-0"); !strings.Contains(log, "broker cluster: joined") {
		t.Errorf("log uns-0 printed:\n%s", log)
	}
	run("not a process", "kill", "uns-7")
	run("usage: localcluster kill <part>", "kill")
	run("not a way", "cut", "uns-0/uns-7")
	run("want a duration", "slow", "nats", "much")
	run("only replicas are upgraded", "upgrade", "nats-0")
	run("there is no program", "upgrade", "uns", filepath.Join(t.TempDir(), "none"))
	run("uns-2 is left as it is", "upgrade", "uns-2", "/bin/true")
	whole()

	if err := check.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if err := check.Wait(ended); err != nil || !strings.Contains(check.Output(), "nothing lost: ") {
		t.Errorf("the check: error %v; it printed:\n%s", err, check.Output())
	}
	t.Logf("check printed:\n%s", check.Output())
	run("", "down")
	if err := up.Wait(ended); err != nil {
		t.Errorf("%v; it printed:\n%s", err, up.Output())
	}
	for _, address := range place.HTTP {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			t.Errorf("somebody still listens on %s", address)
		}
	}
}
