package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"maestrohub.io/uns/tools/localcluster/control"
)

// screen is a drill in a terminal of its own, whose person is the test: what is typed goes
// through the terminal's own line editing, and Ctrl-C and Ctrl-D are what it makes of them.
type screen struct {
	t      *testing.T
	cmd    *exec.Cmd
	keys   *os.File
	exited chan struct{}

	mu      sync.Mutex
	text    strings.Builder
	changed chan struct{} // closed and made anew when there is more
}

// onTerminal starts a program in a terminal that is so many columns wide.
func onTerminal(t *testing.T, columns uint16, dir string, environment []string, program string, args ...string) *screen {
	t.Helper()
	s := &screen{t: t, cmd: exec.Command(program, args...), exited: make(chan struct{}), changed: make(chan struct{})}
	s.cmd.Dir, s.cmd.Env = dir, append(s.cmd.Environ(), environment...)
	keys, err := pty.StartWithSize(s.cmd, &pty.Winsize{Rows: 24, Cols: columns})
	if err != nil {
		t.Fatal(err)
	}
	s.keys = keys
	go func() {
		defer close(s.exited)
		part := make([]byte, 4096)
		for {
			n, err := keys.Read(part) // an error, once the program has ended
			s.mu.Lock()
			s.text.Write(part[:n])
			close(s.changed)
			s.changed = make(chan struct{})
			s.mu.Unlock()
			if err != nil {
				break
			}
		}
		_ = s.cmd.Wait() // ends looks at ProcessState
	}()
	t.Cleanup(func() {
		select {
		case <-s.exited:
		default: // it takes back what it made, for the tests that follow
			_ = s.cmd.Process.Signal(syscall.SIGTERM)
			select {
			case <-s.exited:
			case <-time.After(time.Minute):
				_ = s.cmd.Process.Kill()
			}
		}
		<-s.exited
		_ = keys.Close()
	})
	return s
}

// shown is all that came to the terminal.
func (s *screen) shown() (text string, more <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String(), s.changed
}

// says waits for a pattern and returns its last group.
func (s *screen) says(pattern string) string {
	s.t.Helper()
	late := time.After(2 * time.Minute)
	for {
		text, more := s.shown()
		if m := regexp.MustCompile(pattern).FindStringSubmatch(text); m != nil {
			return m[len(m)-1]
		}
		select {
		case <-more:
		case <-s.exited:
			if text, _ := s.shown(); !regexp.MustCompile(pattern).MatchString(text) {
				s.t.Fatalf("it ended without %q:\n%s", pattern, text)
			}
		case <-late:
			s.t.Fatalf("it does not say %q:\n%s", pattern, text)
		}
	}
}

const ctrlC, ctrlD = "\x03", "\x04"

func (s *screen) types(keys string) {
	s.t.Helper()
	if _, err := io.WriteString(s.keys, keys); err != nil {
		s.t.Fatal(err)
	}
}

// ends waits for the end with a status and returns what was shown.
func (s *screen) ends(status int) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*time.Minute)
	defer cancel()
	select {
	case <-s.exited:
	case <-ctx.Done():
		text, _ := s.shown()
		s.t.Fatalf("it does not end:\n%s", text)
	}
	text, _ := s.shown()
	if got := s.cmd.ProcessState.ExitCode(); got != status {
		s.t.Fatalf("it ended with status %d, want %d:\n%s", got, status, text)
	}
	return text
}

// rows are what a terminal so wide would show, with the sequences carried out that the
// terminal itself uses for ⌫, and the drill: \r, and \x1b[K, which wipes what follows in the
// row. One of another kind is an error.
func rows(t *testing.T, text string, columns int) (list []string) {
	t.Helper()
	row, at := []rune{}, 0
	text = strings.ReplaceAll(text, "\x1b[K", "\v")
	for _, r := range text {
		switch {
		case r == '\n':
			list, row = append(list, strings.TrimRight(string(row), " ")), nil
		case r == '\r':
			at = 0
		case r == '\b':
			at = max(at-1, 0)
		case r == '\v':
			row = row[:min(at, len(row))]
		case r == '\x1b':
			t.Fatalf("a sequence that no one expects in %q", text)
		default:
			if at == columns { // the terminal goes on in a row of its own, which \r does not leave
				list, row, at = append(list, string(row)), nil, 0
			}
			if at < len(row) {
				row[at] = r
			} else {
				row = append(row, r)
			}
			at++
		}
	}
	return append(list, string(row))
}

// The drill's questions as a person meets them, and what ends it.
func TestTheDrillOnATerminal(t *testing.T) {
	dir, socket, _ := localClusterOf(t)
	drill, at := built(t, "drill"), reach(t, socket)
	environment := []string{"DRILL_CLIENT=" + at.Client, "DRILL_SECRET=" + at.Secret}
	arguments := func(faults ...string) []string {
		return append(faults, "--mqtt", at.MQTT[0], "--http", strings.Join(at.HTTP, ","), "--calm", "1s")
	}
	start := func(t *testing.T, columns uint16, more []string, faults ...string) *screen {
		t.Helper()
		return onTerminal(t, columns, dir, append(environment, more...), drill, arguments(faults...)...)
	}
	do := func(t *testing.T, words ...string) {
		t.Helper()
		if _, err := control.Ask(t.Context(), socket, words...); err != nil {
			t.Fatal(err)
		}
	}
	left := func(t *testing.T) {
		t.Helper()
		nothingLeft(t, socket)
	}

	t.Run("answers", func(t *testing.T) {
		s := start(t, 100, nil, "kill", "nats-kill", "mesh-cut")
		replica := s.says(`➜ Kill replica (uns-[0-9])`)
		s.types("what\x7f\x7f\x7f\x7fdone\n") // ⌫ is the terminal's
		s.says(`"done" is no answer. Kill replica`)
		do(t, "kill", replica)
		s.types("\n")
		s.says(`➜ Start replica ` + replica)
		s.types("s\n") // it cannot be left out any more
		s.says(`"s" is no answer. Start replica`)
		do(t, "restart", replica)
		s.types("\n")
		s.says(`➜ Kill one of the three NATS servers`)
		s.types("s\n")
		s.says(`➜ Cut the network between the replicas`)
		s.types("s\n")
		text := s.ends(0)
		if n := strings.Count(text, "left out: by the person who was asked"); n != 2 {
			t.Errorf("%d faults are left out, want 2:\n%s", n, text)
		}
		// What is typed stays where it was typed, and no line of the changing kind is left.
		screen := rows(t, text, 100)
		if !strings.Contains(strings.Join(screen, "\n"), "\ndone\n") {
			t.Errorf("what was typed is not on the screen:\n%s", strings.Join(screen, "\n"))
		}
		if n := strings.Count(strings.Join(screen, "\n"), "devices connected"); n != 0 {
			t.Errorf("%d rows are left of the line that changes:\n%s", n, strings.Join(screen, "\n"))
		}
		left(t)
	})

	t.Run("Ctrl-C", func(t *testing.T) {
		s := start(t, 100, nil, "kill")
		s.says(`➜ Kill replica`)
		s.types(ctrlC)
		s.says("interrupted: what is broken is ended")
		if text := s.ends(interrupted); !strings.Contains(text, "Interrupted: what had not happened yet is not judged") {
			t.Errorf("no verdict of what there is:\n%s", text)
		}
		left(t)
	})

	t.Run("Ctrl-C twice", func(t *testing.T) {
		s := start(t, 100, nil, "kill")
		replica := s.says(`➜ Kill replica (uns-[0-9])`)
		do(t, "kill", replica)
		s.types("\n")
		s.says(`➜ Start replica`)
		s.types(ctrlC)
		s.says("interrupted: what is broken is ended")
		s.types(ctrlC)
		s.says("interrupted again: what is broken is ended, the API client .* deleted")
		// What only the person can end is named.
		text := s.ends(interrupted)
		if !strings.Contains(text, "left behind: Kill the replica the devices are on: Start replica "+replica+" again") || strings.Count(text, "left behind:") != 1 {
			t.Errorf("it leaves something else behind than the replica:\n%s", text)
		}
		do(t, "restart", replica)
		left(t)
	})

	t.Run("Ctrl-D", func(t *testing.T) {
		s := start(t, 100, nil, "kill", "stop")
		s.says(`➜ Kill replica`)
		s.types("s\n")
		s.says(`➜ Stop replica`)
		s.types(ctrlD)
		text := s.ends(interrupted)
		for _, part := range []string{"nobody answers any more (end of input)", "Interrupted: what had not happened yet is not judged"} {
			if !strings.Contains(text, part) {
				t.Errorf("it does not say %q:\n%s", part, text)
			}
		}
		left(t)
	})

	t.Run("a closed terminal", func(t *testing.T) {
		s := start(t, 100, nil, "kill")
		s.says(`➜ Kill replica`)
		if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		s.ends(interrupted)
		left(t)
	})

	t.Run("whoever reads it is gone", func(t *testing.T) {
		if status := readerGone(t, drill, dir, environment, arguments("kill")); status != interrupted {
			t.Errorf("it ended with status %d, want %d", status, interrupted)
		}
		left(t)
	})

	t.Run("narrow", func(t *testing.T) {
		const columns = 30
		s := start(t, columns, nil, "kill")
		s.says(`values ack`) // the changing line was there, as far as it fits
		s.says(`➜ Kill replica`)
		s.types(ctrlC)
		screen := strings.Join(rows(t, s.ends(interrupted), columns), "\n")
		if regexp.MustCompile(`(?m)^ *[0-9.]+ s  [0-9]+ values ack`).MatchString(screen) {
			t.Errorf("rows are left of the line that changes:\n%s", screen)
		}
		left(t)
	})

	t.Run("a terminal without control sequences", func(t *testing.T) {
		s := start(t, 100, []string{"TERM=dumb"}, "kill")
		s.says(`➜ Kill replica`)
		s.types(ctrlC)
		if text := s.ends(interrupted); strings.ContainsAny(strings.ReplaceAll(text, "\r\n", "\n"), "\x1b\r") {
			t.Errorf("there are control sequences in\n%q", text)
		}
		left(t)
	})

	// Last: its saved sessions stay until they expire.
	t.Run("Ctrl-C three times", func(t *testing.T) {
		s := start(t, 100, nil, "kill")
		s.says(`➜ Kill replica`)
		// Nothing can be taken back: no replica answers.
		do(t, "pause", "uns-0")
		do(t, "pause", "uns-1")
		s.types(ctrlC)
		s.says("interrupted: what is broken is ended")
		s.types(ctrlC)
		s.says("interrupted again")
		s.types(ctrlC)
		text := s.ends(interrupted)
		do(t, "resume", "uns-0")
		do(t, "resume", "uns-1")
		client := regexp.MustCompile("ended at once\\s+left behind: the API client (drill-[0-9a-f]+): `broker client delete").FindStringSubmatch(text)
		if client == nil {
			t.Fatalf("it does not say what it leaves behind:\n%s", text)
		}
		if err := (&rest{bases: at.HTTP, client: at.Client, secret: at.Secret, http: http.DefaultClient}).deleteClient(t.Context(), client[1]); err != nil {
			t.Fatal(err)
		}
	})
}

// readerGone interrupts a drill whose output nobody reads any more, as in `drill | tee`, and
// returns its status.
func readerGone(t *testing.T, drill, dir string, environment, args []string) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), drill, args...)
	cmd.Dir, cmd.Env = dir, append(cmd.Environ(), environment...)
	answers, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer answers.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	part := make([]byte, 4096)
	for !strings.Contains(said.String(), "➜ Kill replica") {
		n, err := out.Read(part)
		said.Write(part[:n])
		if err != nil {
			t.Fatalf("%v\n%s", err, said.String())
		}
	}
	out.Close()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode()
}
