package natsserver

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"maestrohub.io/uns/tools/launch"
)

// Build compiles nats-server and returns the binary's path.
func Build() (string, error) {
	return launch.Build("tools/peers", "github.com/nats-io/nats-server/v2", "nats-server")
}

// BuildCLI compiles the nats command line and returns the binary's path.
func BuildCLI() (string, error) {
	return launch.Build("tools/peers", "github.com/nats-io/natscli/nats", "nats")
}

// Options say what cluster to start.
type Options struct {
	Dir     string // a folder for this cluster alone
	Servers int    // 0: 3
	// Accounts are the names of accounts with JetStream; each has one user of
	// the same name, whose password is the name too. None: one called BROKER.
	Accounts []string
	// Users names an account's user and its password otherwise.
	Users map[string]User
	// SyncAlways makes servers sync each write before they answer.
	SyncAlways bool
	// MaxPayload is the largest message in bytes. 0: nats-server's, 1 MiB.
	MaxPayload int
	// MaxFile is how much each server stores, as nats.conf has it. Empty: 20G.
	MaxFile string
	// MQTT opens an MQTT listener on each server, whose streams have three copies.
	MQTT bool
	// TLS secures client connections with certificates in these files. Empty: plain.
	TLS struct{ Cert, Key, CA string }
	// Host is the address server i listens on. nil: 127.0.0.1 for all.
	Host func(i int) string
}

// User is who joins an account.
type User struct{ Name, Password string }

// user returns the user of an account.
func (o Options) user(account string) User {
	if u, named := o.Users[account]; named {
		return u
	}
	return User{account, account}
}

// Cluster is a set of servers that form one NATS cluster.
type Cluster struct {
	Servers []*Server
	options Options
}

// Server is one member. Its methods may follow each other as often as wanted;
// addresses and data stay.
type Server struct {
	Name    string
	Address string // host:port for clients
	Monitor string // host:port of its HTTP monitoring
	MQTT    string // host:port for MQTT clients, if asked for

	dir, binary string
	process     *launch.Process
}

// Start starts all servers of a new cluster; see Ready.
func Start(o Options) (*Cluster, error) {
	if o.Servers == 0 {
		o.Servers = 3
	}
	if len(o.Accounts) == 0 {
		o.Accounts = []string{"BROKER"}
	}
	if o.Host == nil {
		o.Host = func(int) string { return "127.0.0.1" }
	}
	binary, err := Build()
	if err != nil {
		return nil, err
	}
	ports, err := launch.Reserve(4 * o.Servers)
	if err != nil {
		return nil, err
	}
	c := &Cluster{options: o}
	var routes []string
	for i := range o.Servers {
		routes = append(routes, fmt.Sprintf("nats://%s:%d", o.Host(i), ports[4*i+1]))
	}
	for i := range o.Servers {
		s := &Server{
			Name: fmt.Sprintf("nats-%d", i), Address: fmt.Sprintf("%s:%d", o.Host(i), ports[4*i]),
			Monitor: fmt.Sprintf("%s:%d", o.Host(i), ports[4*i+2]),
			MQTT:    fmt.Sprintf("%s:%d", o.Host(i), ports[4*i+3]),
			dir:     filepath.Join(o.Dir, fmt.Sprintf("nats-%d", i)), binary: binary,
		}
		if err := os.MkdirAll(s.dir, 0o755); err != nil {
			return nil, fmt.Errorf("start %s: %w", s.Name, err)
		}
		config := c.config(s, strings.TrimPrefix(routes[i], "nats://"), routes)
		if err := os.WriteFile(filepath.Join(s.dir, "nats.conf"), []byte(config), 0o600); err != nil {
			return nil, fmt.Errorf("start %s: %w", s.Name, err)
		}
		c.Servers = append(c.Servers, s)
	}
	for _, s := range c.Servers {
		if err := s.Start(); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

func (c *Cluster) config(s *Server, route string, routes []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "server_name: %s\nlisten: %q\nhttp: %q\n", s.Name, s.Address, s.Monitor)
	// A slow NATS must still let clients in.
	fmt.Fprintf(&b, "authorization { timeout: 30 }\n")
	if c.options.MaxPayload > 0 {
		fmt.Fprintf(&b, "max_payload: %d\n", c.options.MaxPayload)
	}
	sync := ""
	if c.options.SyncAlways {
		sync = ", sync_interval: always"
	}
	fmt.Fprintf(&b, "jetstream { store_dir: %q, max_mem: 1G, max_file: %s%s }\n", filepath.Join(s.dir, "jetstream"), cmp.Or(c.options.MaxFile, "20G"), sync)
	if len(c.Servers) > 0 || c.options.Servers > 1 {
		fmt.Fprintf(&b, "cluster { name: local, listen: %q, no_advertise: true, routes: [%s] }\n", route, strings.Join(routes, ", "))
	}
	if c.options.MQTT {
		// Many unacknowledged, but not so many that the 65,535 packet ids of a session are
		// used up by a subscription and the PUBRELs of QoS 2, which it then refuses.
		fmt.Fprintf(&b, "mqtt { listen: %q, stream_replicas: 3, max_ack_pending: 16000 }\n", s.MQTT)
	}
	if t := c.options.TLS; t.Cert != "" {
		fmt.Fprintf(&b, "tls { cert_file: %q, key_file: %q, ca_file: %q, timeout: 30 }\n", t.Cert, t.Key, t.CA)
	}
	b.WriteString("accounts {\n")
	for _, a := range c.options.Accounts {
		u := c.options.user(a)
		fmt.Fprintf(&b, "  %s { jetstream: enabled, users: [ {user: %q, password: %q} ] }\n", a, u.Name, u.Password)
	}
	b.WriteString("  SYS { users: [ {user: SYS, password: SYS} ] }\n}\nsystem_account: SYS\n")
	return b.String()
}

// Start runs the server over what it has stored.
func (s *Server) Start() error {
	p, err := launch.Start(launch.Spec{Name: s.Name, Path: s.binary, Args: []string{"-c", filepath.Join(s.dir, "nats.conf")}, Dir: s.dir})
	if err != nil {
		return err
	}
	s.process = p
	return nil
}

// Wipe removes what the server has stored, as when its volume is lost. It must not run.
func (s *Server) Wipe() error {
	if s.Alive() {
		return fmt.Errorf("wipe %s: it runs", s.Name)
	}
	return os.RemoveAll(filepath.Join(s.dir, "jetstream"))
}

// Kill is kill -9, also of a paused server; it returns once it is gone.
func (s *Server) Kill() {
	if s.process != nil {
		s.process.Kill()
	}
}

// Stop stops the server with SIGTERM, as Kubernetes does.
func (s *Server) Stop(grace time.Duration) error { return s.process.Stop(grace) }

// Pause stops the process where it stands and returns once all its threads are;
// Resume lets it go on.
func (s *Server) Pause() error {
	if err := s.process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		states, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.PID()))
		if err != nil {
			return fmt.Errorf("pause %s: %w", s.Name, err)
		}
		running := 0
		for _, path := range states {
			stat, err := os.ReadFile(path)
			// After the program's name, in parentheses, comes the state.
			if _, rest, ok := strings.Cut(string(stat), ") "); err == nil && ok && !strings.HasPrefix(rest, "T") {
				running++
			}
		}
		if running == 0 {
			return nil
		}
		runtime.Gosched()
	}
}

// Resume undoes Pause.
func (s *Server) Resume() error { return s.process.Signal(syscall.SIGCONT) }

// Alive reports whether the process runs, paused or not.
func (s *Server) Alive() bool { return s.process != nil && s.process.Running() }

// PID is the process id of the running server, or the last one.
func (s *Server) PID() int { return s.process.PID() }

// Output is what the server has printed in this life.
func (s *Server) Output() string { return s.process.Output() }

// URL is where the account's user connects to this server, one of the account's name.
func (s *Server) URL(account string) string {
	return fmt.Sprintf("nats://%s:%s@%s", account, account, s.Address)
}

// URLs are the servers for an account's user.
func (c *Cluster) URLs(account string) []string {
	var urls []string
	for _, s := range c.Servers {
		urls = append(urls, s.URL(account))
	}
	return urls
}

// Ready waits until JetStream answers on every server that runs.
func (c *Cluster) Ready(ctx context.Context) error {
	for _, s := range c.Servers {
		if err := s.Ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Ready waits until JetStream answers on this server and it has caught up.
func (s *Server) Ready(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !s.ready(ctx) {
		select {
		case <-tick.C:
		case <-s.process.Exited():
			return fmt.Errorf("%s ended; it printed:\n%s", s.Name, s.Output())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w; it printed:\n%s", s.Name, ctx.Err(), s.Output())
		}
	}
	return nil
}

func (s *Server) ready(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Monitor+"/healthz", nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// Close kills every server.
func (c *Cluster) Close() {
	for _, s := range c.Servers {
		s.Kill()
	}
}
