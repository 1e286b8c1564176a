package launch

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is one started program. Its methods may be used from any goroutine.
type Process struct {
	name   string
	cmd    *exec.Cmd
	exited chan struct{}
	err    error // what Wait returned; read after exited is closed

	input  io.WriteCloser // nil unless interactive
	output output
}

// Spec says what to start.
type Spec struct {
	Name  string // for messages; the program's base name if empty
	Path  string
	Args  []string
	Dir   string
	Env   []string // added to the starter's environment
	Stdin string   // given to the program, then closed
	// Interactive gives the program a standard input that Send writes to.
	Interactive bool
}

// Start runs the program. It is killed when the calling process ends.
func Start(spec Spec) (*Process, error) {
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Dir = spec.Dir
	cmd.Env = append(cmd.Environ(), spec.Env...)
	// A group of its own, so that Kill reaches the program's own children.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	// A killed program's orphans may hold the pipe open; do not wait for them.
	cmd.WaitDelay = time.Second
	if spec.Stdin != "" {
		cmd.Stdin = bytes.NewReader([]byte(spec.Stdin))
	}
	p := &Process{name: spec.Name, cmd: cmd, exited: make(chan struct{})}
	if p.name == "" {
		p.name = spec.Path
	}
	p.output.changed = make(chan struct{})
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	if spec.Interactive {
		input, err := cmd.StdinPipe()
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", p.name, err)
		}
		p.input = input
	}
	started := make(chan error, 1)
	go func() {
		// Pdeathsig fires when the starting *thread* ends; keep it for as long
		// as the program runs.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	return p, nil
}

// Name returns the name given in the Spec.
func (p *Process) Name() string { return p.name }

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited is closed once the program has ended and its output is complete.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Running reports whether the program has not ended, be it paused.
func (p *Process) Running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Wait waits for the program's end and returns an error that names the program
// if it ended with another exit code than 0, or if ctx ended first.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.exited:
		if p.err != nil {
			return fmt.Errorf("%s: %w", p.name, p.err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s still runs: %w", p.name, ctx.Err())
	}
}

// Signal sends a signal to the program alone.
func (p *Process) Signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("signal %s: %w", p.name, err)
	}
	return nil
}

// Kill is kill -9 of the program and its children, and waits until the program
// is gone. Killing what has ended is no error.
func (p *Process) Kill() {
	select {
	case <-p.exited:
	default:
		// ESRCH: it ended meanwhile.
		_ = syscall.Kill(-p.PID(), syscall.SIGKILL)
	}
	<-p.exited
}

// Stop asks the program to end with SIGTERM and kills it after the grace. The
// error says that it had to be killed, or how it ended if not with 0.
func (p *Process) Stop(grace time.Duration) error {
	_ = p.Signal(syscall.SIGTERM) // an error means that it has ended
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	err := p.Wait(ctx)
	p.Kill()
	return err
}

// Send writes to the standard input of an interactive program.
func (p *Process) Send(text string) error {
	if _, err := io.WriteString(p.input, text); err != nil {
		return fmt.Errorf("write to %s: %w", p.name, err)
	}
	return nil
}

// EndInput closes the standard input of an interactive program.
func (p *Process) EndInput() error {
	if err := p.input.Close(); err != nil {
		return fmt.Errorf("end the input of %s: %w", p.name, err)
	}
	return nil
}

// Output returns what the program has printed so far, both streams as they came.
func (p *Process) Output() string { return p.output.String() }

// WaitFor waits until the output matches and returns the submatches.
func (p *Process) WaitFor(ctx context.Context, pattern *regexp.Regexp) ([]string, error) {
	for {
		text, changed := p.output.since(0)
		if m := pattern.FindStringSubmatch(text); m != nil {
			return m, nil
		}
		select {
		case <-changed:
		case <-p.exited:
			if m := pattern.FindStringSubmatch(p.Output()); m != nil {
				return m, nil
			}
			return nil, fmt.Errorf("%s ended (%v) before printing %q; it printed:\n%s", p.name, p.err, pattern, p.Output())
		case <-ctx.Done():
			return nil, fmt.Errorf("%s did not print %q: %w; it printed:\n%s", p.name, pattern, ctx.Err(), p.Output())
		}
	}
}

// Lines yields the lines of the output from its start, waiting for those to come,
// until the program has ended. A last line without an end is yielded too.
func (p *Process) Lines() iter.Seq[string] {
	return func(yield func(string) bool) {
		for at := 0; ; {
			text, changed := p.output.since(at)
			if line, _, whole := strings.Cut(text, "\n"); whole {
				at += len(line) + 1
				if !yield(line) {
					return
				}
				continue
			}
			select {
			case <-changed:
			case <-p.exited:
				if text, _ := p.output.since(at); strings.Contains(text, "\n") {
					continue // printed between the two looks
				} else if text != "" {
					yield(text)
				}
				return
			}
		}
	}
}

// output keeps what a program prints, up to outputLimit; a program that prints more
// has run wild, and its first lines say why.
type output struct {
	mu      sync.Mutex
	buf     []byte
	changed chan struct{} // closed and replaced at each write
}

const outputLimit = 64 << 20

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf = append(o.buf, b[:min(len(b), outputLimit-len(o.buf))]...)
	close(o.changed)
	o.changed = make(chan struct{})
	return len(b), nil
}

func (o *output) String() string {
	text, _ := o.since(0)
	return text
}

// since returns what was printed from an offset on, and a channel that is closed
// when there is more.
func (o *output) since(at int) (string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.buf[at:]), o.changed
}
