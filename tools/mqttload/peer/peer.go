package peer

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"maestrohub.io/uns/tools/launch"
	"maestrohub.io/uns/tools/mqttload/scenario"
)

// Kind is one broker in one configuration.
type Kind struct {
	Name string
	// Durable: an acknowledgment means that the value is synced to disk.
	Durable bool
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

// Mosquitto is Debian's mosquitto, in memory, as it is when it acknowledges
// without a disk, with TCP_NODELAY set (without it its acknowledgments wait for
// the client's) and queues that drop nothing.
func Mosquitto() Kind {
	return Kind{Name: "mosquitto", Start: func(ctx context.Context, dir string) (*Running, error) {
		port, err := reserve()
		if err != nil {
			return nil, err
		}
		return start(ctx, "mosquitto", "/usr/sbin/mosquitto", dir, port, fmt.Sprintf(`listener %d 127.0.0.1
allow_anonymous true
persistence false
set_tcp_nodelay true
max_queued_messages 0
max_inflight_messages 1000
log_type error
user %s
`, port, owner()), "-c")
	}}
}

// Nats is nats-server's MQTT with one copy. synced makes it sync before it
// acknowledges (sync_interval always), which is what our broker always does.
func Nats(build func() (string, error), synced bool) Kind {
	name, interval := "nats-server", ""
	if synced {
		name, interval = "nats-server, synced", "sync_interval: always"
	}
	return Kind{Name: name, Durable: synced, Start: func(ctx context.Context, dir string) (*Running, error) {
		binary, err := build()
		if err != nil {
			return nil, err
		}
		port, err := reserve()
		if err != nil {
			return nil, err
		}
		return start(ctx, name, binary, dir, port, fmt.Sprintf(`server_name: bench
listen: "127.0.0.1:-1"
jetstream { store_dir: %q, %s }
mqtt { listen: "127.0.0.1:%d", max_ack_pending: 16000 }
`, dir, interval, port), "-c")
	}}
}

// start runs a broker with a configuration file and waits for its port.
func start(ctx context.Context, name, binary, dir string, port int, config string, flag string) (*Running, error) {
	path := filepath.Join(dir, "config")
	if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p, err := launch.Start(launch.Spec{Name: name, Path: binary, Args: []string{flag, path}, Dir: dir})
	if err != nil {
		return nil, err
	}
	address := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port))
	if err := waitForPort(ctx, p, address); err != nil {
		p.Kill()
		return nil, err
	}
	return &Running{
		Target: scenario.Target{Name: name, Address: address, PublishTopic: "load/{i}", SubscribeTopic: "load/{i}", PID: p.PID()},
		stop:   func() { _ = p.Stop(5 * time.Second) }, // a benchmark's folder is thrown away: how it ended does not matter
	}, nil
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

// owner returns the user mosquitto is to run as: started as root it would become
// "mosquitto" and lose sight of the folder.
func owner() string {
	if id := os.Getuid(); id != 0 {
		return strconv.Itoa(id) // not root: mosquitto ignores the setting
	}
	return "root"
}
