package deployment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// versionBound is how long a program may take to say what it is.
const versionBound = 10 * time.Second

// readyBound is how long an upgraded replica may take to serve before its former program
// is taken back. Tests set it.
var readyBound = time.Minute

// Upgrade stops the replica as an operator would, and starts it again as another
// program; an empty path keeps the program. What is no broker is refused and the replica
// left as it is. One that does not serve is ended, and the former program started again.
func (r *Replica) Upgrade(ctx context.Context, binary string) error {
	next := r.Binary()
	if binary != "" {
		path, err := filepath.Abs(binary)
		if err != nil {
			return fmt.Errorf("upgrade %s: %w", r.ID, err)
		}
		next = path
	}
	if err := isBroker(ctx, next); err != nil {
		return fmt.Errorf("%w; %s is left as it is", err, r.ID)
	}
	former, err := r.former(next)
	if err != nil {
		return fmt.Errorf("upgrade %s: %w", r.ID, err)
	}
	if r.Alive() {
		if err := r.Stop(stopBound); err != nil {
			return fmt.Errorf("upgrade %s: %w", r.ID, err)
		}
	}
	err = r.startAs(ctx, next)
	if err == nil || ctx.Err() != nil {
		return err
	}
	if former == "" {
		return fmt.Errorf("%s does not serve as %s, and there is no other program to go back to: %w", r.ID, next, err)
	}
	if back := r.startAs(ctx, former); back != nil {
		return errors.Join(fmt.Errorf("%s does not serve as %s: %w", r.ID, next, err), fmt.Errorf("nor as its former program %s: %w", former, back))
	}
	return fmt.Errorf("%s does not serve as %s and runs as its former program again, %s: %w", r.ID, next, former, err)
}

// former is the program to go back to, "" if there is none. Where the next one was built in
// its place, what still runs is copied.
func (r *Replica) former(next string) (string, error) {
	if r.Binary() != next {
		return r.Binary(), nil
	}
	if !r.Alive() {
		return "", nil
	}
	running, err := os.Open(fmt.Sprintf("/proc/%d/exe", r.Process().PID()))
	if err != nil {
		return "", err
	}
	defer running.Close()
	kept := filepath.Join(r.Dir, "former-broker")
	if err := os.Remove(kept); err != nil && !errors.Is(err, os.ErrNotExist) { // may be what runs
		return "", err
	}
	file, err := os.OpenFile(kept, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(file, running)
	return kept, errors.Join(err, file.Close())
}

// startAs starts the replica as a program, and waits until it serves.
func (r *Replica) startAs(ctx context.Context, program string) error {
	ctx, cancel := context.WithTimeout(ctx, readyBound)
	defer cancel()
	r.SetBinary(program)
	return r.Start(ctx)
}

// isBroker asks a program what it is. Anything but a broker fails here, before anything
// is stopped for it.
func isBroker(ctx context.Context, program string) error {
	info, err := os.Stat(program)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("there is no program %s; `go build -o bin/broker ./broker` makes one", program)
	case err != nil:
		return fmt.Errorf("%s is no broker: %w", program, err)
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return fmt.Errorf("%s is no program: it is %v", program, info.Mode())
	}
	ctx, cancel := context.WithTimeout(ctx, versionBound)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, "version").Output()
	if ctx.Err() != nil {
		err = fmt.Errorf("no answer within %v", versionBound)
	}
	if said := strings.TrimSpace(string(out)); err != nil {
		return fmt.Errorf("%s is no broker, by what it answers to `version`: %w", program, err)
	} else if !strings.HasPrefix(said, "broker ") {
		return fmt.Errorf("%s is no broker, by what it answers to `version`: %.200q", program, said)
	}
	return nil
}
