package peer

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"maestrohub.io/uns/tools/launch"
	"maestrohub.io/uns/tools/mqttload/scenario"
)

// Kind is one broker in one configuration.
type Kind struct {
	Name string
	// Means says what is true when the broker has acknowledged a value, without a full stop.
	Means string
	// Kept: it is several processes and takes seconds to start, so one start serves all
	// turns, and it runs while others have theirs.
	Kept bool
	// Version is that of the programs it consists of, which it builds if they are ours to build.
	Version func() (string, error)
	// Start starts the broker over an empty folder.
	Start func(ctx context.Context, dir string) (*Running, error)
}

// Running is a started broker.
type Running struct {
	Target scenario.Target
	stop   func()
	// streams asks how many messages each JetStream stream has been written; nil: there
	// are none to ask for.
	streams func() (map[string]uint64, error)
	output  func() string // nil: not kept
}

// Output is what the broker's processes have printed, if that is kept.
func (r *Running) Output() string {
	if r.output == nil {
		return ""
	}
	return r.output()
}

// Streams is how many messages each JetStream stream of a cluster has been written so
// far, nil if that is not known.
func (r *Running) Streams() (map[string]uint64, error) {
	if r.streams == nil {
		return nil, nil
	}
	return r.streams()
}

// Stop ends the broker.
func (r *Running) Stop() { r.stop() }

// single is a broker of one process that reads a configuration file.
type single struct {
	name, binary, dir, flag string
	address                 netip.AddrPort
	process                 *launch.Process
}

// startSingle writes the configuration, runs the broker and waits for its port.
func startSingle(ctx context.Context, name, binary, dir string, port int, config, flag string) (*Running, error) {
	s := &single{name: name, binary: binary, dir: dir, flag: flag, address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port))}
	if err := os.WriteFile(s.config(), []byte(config), 0o644); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	return &Running{
		Target: scenario.Target{
			Name: name, Address: s.address, PublishTopic: "load/{i}", SubscribeTopic: "load/{i}",
			PIDs: func() []int { return []int{s.process.PID()} },
			Fail: func(ctx context.Context) error {
				s.process.Kill()
				return s.start(ctx)
			},
		},
		output: func() string { return s.process.Output() },
		stop:   func() { _ = s.process.Stop(5 * time.Second) }, // a benchmark's folder is thrown away: how it ended does not matter
	}, nil
}

func (s *single) config() string { return filepath.Join(s.dir, "config") }

// start runs the broker over what it has stored.
func (s *single) start(ctx context.Context) error {
	p, err := launch.Start(launch.Spec{Name: s.name, Path: s.binary, Args: []string{s.flag, s.config()}, Dir: s.dir})
	if err != nil {
		return err
	}
	if err := waitForPort(ctx, p, s.address); err != nil {
		p.Kill()
		return err
	}
	s.process = p
	return nil
}

func waitForPort(ctx context.Context, p *launch.Process, address netip.AddrPort) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := net.Dial("tcp", address.String())
		if err == nil {
			return c.Close()
		}
		select {
		case <-tick.C:
		case <-p.Exited():
			return fmt.Errorf("%s ended before it listened on %s; it printed:\n%s", p.Name(), address, p.Output())
		case <-ctx.Done():
			return fmt.Errorf("%s does not listen on %s: %w; it printed:\n%s", p.Name(), address, ctx.Err(), p.Output())
		}
	}
}

func reserve() (int, error) {
	ports, err := launch.Reserve(1)
	if err != nil {
		return 0, err
	}
	return ports[0], nil
}

// moduleVersion is the version of the module a binary was built from.
func moduleVersion(build func() (string, error)) (string, error) {
	binary, err := build()
	if err != nil {
		return "", err
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return "", fmt.Errorf("version of %s: %w", binary, err)
	}
	return strings.TrimPrefix(info.Main.Version, "v"), nil
}

// printed is what a program prints that was asked for its version, its first line.
func printed(binary, flag string) (string, error) {
	// mosquitto has no flag of its own for it and ends with 3 after its help.
	out, err := exec.Command(binary, flag).Output()
	first, _, _ := strings.Cut(string(out), "\n")
	if first == "" {
		return "", fmt.Errorf("version of %s: %w", binary, err)
	}
	return strings.TrimSpace(first), nil
}
