package interrupt

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

const asProgram = "INTERRUPT_TEST_RUNS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		program()
		return
	}
	os.Exit(m.Run())
}

// program says on standard error which of its contexts ended, and writes to standard output,
// which may be nobody's.
func program() {
	first, second, stop := Contexts(func() { fmt.Fprintln(os.Stderr, "last words") })
	defer stop()
	fmt.Fprintln(os.Stderr, "began")
	<-first.Done()
	if _, err := fmt.Println("first"); err != nil {
		fmt.Fprintln(os.Stderr, "nobody reads")
	}
	fmt.Fprintln(os.Stderr, "first", second.Err())
	if os.Getenv(asProgram) == "once" {
		return
	}
	<-second.Done()
	fmt.Fprintln(os.Stderr, "second")
	select {}
}

// started is the program, and what it says line by line.
func started(t *testing.T, how string) (*exec.Cmd, func(want string)) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), asProgram+"="+how)
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	return cmd, func(want string) {
		t.Helper()
		if !lines.Scan() || strings.TrimSpace(lines.Text()) != want {
			t.Fatalf("it says %q (%v), want %q", lines.Text(), lines.Err(), want)
		}
	}
}

func send(t *testing.T, cmd *exec.Cmd, s syscall.Signal) {
	t.Helper()
	if err := cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

func TestEachInterruptEndsMore(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		cmd, says := started(t, "thrice")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		says("began")
		send(t, cmd, s)
		says("first <nil>")
		send(t, cmd, s)
		says("second")
		send(t, cmd, s)
		says("last words")
		if err, exit := cmd.Wait(), (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != Status {
			t.Errorf("%v: it ended with %v, want status %d", s, err, Status)
		}
	}
}

func TestWritingToNobodyIsAnErrorAndNotTheEnd(t *testing.T) {
	cmd, says := started(t, "once")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	says("began")
	out.Close()
	send(t, cmd, syscall.SIGINT)
	says("nobody reads")
	says("first <nil>")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// nohup: a program that is to outlive its terminal is not ended by the terminal's end.
func TestAHangupThatIsIgnoredStaysSo(t *testing.T) {
	cmd, says := started(t, "once")
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `trap "" HUP; exec "$0"`, os.Args[0]}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	says("began")
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	mask := regexp.MustCompile(`SigIgn:\s*([0-9a-f]+)`).FindSubmatch(status)
	if ignored, err := strconv.ParseUint(string(mask[1]), 16, 64); err != nil || ignored&(1<<(syscall.SIGHUP-1)) == 0 {
		t.Errorf("it does not ignore SIGHUP any more: %s, %v", mask[0], err)
	}
	send(t, cmd, syscall.SIGTERM)
	says("first <nil>")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
