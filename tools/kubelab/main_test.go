package main

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain lets the test's own binary be the program.
func TestMain(m *testing.M) {
	if os.Getenv("KUBELAB_PROGRAM") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// up runs `kubelab up` for a lab of the test's own, below a command, and returns its
// exit code and what it said.
func up(t *testing.T, below ...string) (code int, said string) {
	t.Helper()
	args := append(below, os.Args[0], "up", "--dir", filepath.Join(t.TempDir(), "lab"))
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "KUBELAB_PROGRAM=1")
	out, err := cmd.CombinedOutput()
	exit := (*exec.ExitError)(nil)
	if !errors.As(err, &exit) {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return exit.ExitCode(), string(out)
}

// A machine that forbids what nodes are made of is told apart, and each of it named.
func TestAMachineThatCannotRunNodesIsNoFailure(t *testing.T) {
	everything := []string{"network namespaces: ip netns add ", "mounts of folders over each other (overlay): operation not permitted", "bridges: ip link add "}
	below := []string{"setpriv", "--bounding-set=-sys_admin,-net_admin"}
	if os.Geteuid() != 0 {
		everything, below = []string{"root, "}, nil
	}
	code, said := up(t, below...)
	if code != 3 || !strings.Contains(said, "kubelab: this machine cannot run nodes; it does not give: ") {
		t.Errorf("exit code %d, want 3:\n%s", code, said)
	}
	for _, what := range everything {
		if !strings.Contains(said, what) {
			t.Errorf("%q is not named:\n%s", what, said)
		}
	}
	if strings.Contains(said, "cgroups: ") {
		t.Errorf("what it gives is named too:\n%s", said)
	}
	for _, left := range []string{"/run/netns/kubelab-try1", "/sys/class/net/kubelab-try", "/sys/fs/cgroup/kubelab-try", "/sys/fs/cgroup/cpu/kubelab-try"} {
		if _, err := os.Stat(left); err == nil {
			t.Errorf("the trial has left %s", left)
		}
	}
}

func TestALabThatDoesNotComeUpIsAFailure(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("without root no lab gets so far")
	}
	// The registry's port, on every address; a lab that is up is in the way as well.
	if l, err := net.Listen("tcp4", ":5000"); err == nil {
		defer l.Close()
	}
	code, said := up(t)
	if code != 1 || strings.Contains(said, "cannot run nodes") {
		t.Errorf("exit code %d, want 1:\n%s", code, said)
	}
	if !strings.Contains(said, "port 5000, which the registry needs, is taken") && !strings.Contains(said, "a lab that is not in ") {
		t.Errorf("the reason is not said:\n%s", said)
	}
}
