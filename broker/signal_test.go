package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// asBroker makes the test binary the broker itself: main with real signals.
const asBroker = "BROKER_TEST_RUNS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asBroker) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestTheSignalsThatEndABrokerStopItInOrder(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		t.Run(signal.String(), func(t *testing.T) {
			dir := t.TempDir()
			file := write(t, filepath.Join(dir, "config.yaml"), "modules: {uns: {dataDir: '"+dir+"/data', replicaId: a, http: {listen: '127.0.0.1:0'}, embeddedBroker: {tcpListen: '127.0.0.1:0'}}}\n")
			var log lockedBuffer
			broker := exec.CommandContext(t.Context(), os.Args[0], "run", "--config", file)
			broker.Env = append(os.Environ(), asBroker+"=1")
			broker.Stderr = &log
			if err := broker.Start(); err != nil {
				t.Fatal(err)
			}
			waitFor(t, "the broker serves", func() bool { return strings.Contains(log.String(), "single node") })
			if err := broker.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if err := broker.Wait(); err != nil || !strings.Contains(log.String(), "embedded broker: stopped ") {
				t.Errorf("ended with %v, want a stop in order:\n%s", err, log.String())
			}
		})
	}
}

// Ctrl-C in a terminal ends `broker | tee` as a whole, and tee first.
func TestABrokerWhoseLogNobodyReadsAnyMoreStopsInOrder(t *testing.T) {
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "config.yaml"), "modules: {uns: {dataDir: '"+dir+"/data', replicaId: a, http: {listen: '127.0.0.1:0'}, embeddedBroker: {tcpListen: '127.0.0.1:0'}}}\n")
	broker := exec.CommandContext(t.Context(), os.Args[0], "run", "--config", file)
	broker.Env = append(os.Environ(), asBroker+"=1")
	log, err := broker.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := broker.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(log); !strings.Contains(lines.Text(), "single node"); {
		if !lines.Scan() {
			t.Fatalf("the log ended: %v", lines.Err())
		}
	}
	log.Close()
	if err := broker.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := broker.Wait(); err != nil {
		t.Errorf("it ended with %v, want a stop in order", err)
	}
}
