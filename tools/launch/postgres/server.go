package postgres

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"maestrohub.io/uns/tools/launch"
)

// Options say what server to prepare.
type Options struct {
	// Settings are lines of postgresql.conf; they win over those of this package.
	Settings map[string]string
	// HBA are the lines of pg_hba.conf put before the ones of this package.
	HBA []string
	// Files are written into the data folder, readable by the server alone:
	// certificates, for example.
	Files map[string][]byte
}

// Server is a PostgreSQL server over a folder of its own.
type Server struct {
	dir     string
	port    int
	account *account
	program string
	process *launch.Process
}

// Prepare makes a server that is not started.
func Prepare(ctx context.Context, o Options) (*Server, error) {
	initdb, err := Program("initdb")
	if err != nil {
		return nil, err
	}
	s := &Server{}
	if s.program, err = Program("postgres"); err != nil {
		return nil, err
	}
	if s.account, err = serverAccount(); err != nil {
		return nil, err
	}
	ports, err := launch.Reserve(1)
	if err != nil {
		return nil, err
	}
	s.port = ports[0]
	// Not below a test's folder: the other user may not pass that.
	if s.dir, err = os.MkdirTemp("", "postgres-"); err != nil {
		return nil, fmt.Errorf("prepare PostgreSQL: %w", err)
	}
	if err := s.fill(ctx, initdb, o); err != nil {
		os.RemoveAll(s.dir)
		return nil, fmt.Errorf("prepare PostgreSQL: %w", err)
	}
	return s, nil
}

func (s *Server) fill(ctx context.Context, initdb string, o Options) error {
	if err := s.account.own(s.dir); err != nil {
		return err
	}
	made, err := launch.Start(s.account.spec("initdb", initdb, "-D", s.data(), "-U", "postgres",
		"--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"))
	if err != nil {
		return err
	}
	defer made.Kill()
	if err := made.Wait(ctx); err != nil {
		return fmt.Errorf("%w; it printed:\n%s", err, made.Output())
	}
	return s.configure(o)
}

// Start starts the server and waits until it takes connections.
func (s *Server) Start(ctx context.Context) error {
	p, err := launch.Start(s.account.spec("postgres", s.program, "-D", s.data()))
	if err != nil {
		return err
	}
	s.process = p
	if _, err := p.WaitFor(ctx, ready); err != nil {
		s.Kill()
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	return nil
}

var ready = regexp.MustCompile(`database system is ready to accept (read-only )?connections`)

// URL returns a connection URL of a database for the superuser, over loopback TCP.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", s.Address(), database)
}

// SocketURL returns the same over the Unix socket.
func (s *Server) SocketURL(database string) string {
	return fmt.Sprintf("postgres:///%s?user=postgres&host=%s&port=%d", database, s.dir, s.port)
}

// Address returns host:port of the TCP listener.
func (s *Server) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Dir returns the server's folder, writable by the server.
func (s *Server) Dir() string { return s.dir }

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// PIDs returns the ids of the server's processes.
func (s *Server) PIDs() []int {
	return append(children(s.process.PID()), s.process.PID())
}

// Output returns what the server has logged since its last start.
func (s *Server) Output() string {
	if s.process == nil {
		return ""
	}
	return s.process.Output()
}

// Alive reports whether the server runs, paused or not.
func (s *Server) Alive() bool { return s.process != nil && s.process.Running() }

// Kill is kill -9 of all the server's processes; it returns once they are gone.
// Killing what has ended is no error.
func (s *Server) Kill() {
	if s.process == nil {
		return
	}
	// The postmaster stands still first, so that it starts nothing more and cleans
	// nothing up.
	_ = syscall.Kill(s.process.PID(), syscall.SIGSTOP)
	backends := children(s.process.PID())
	for _, pid := range backends {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	s.process.Kill()
	for _, pid := range backends {
		for alive(pid) { // its zombie is taken by init within moments
			time.Sleep(time.Millisecond)
		}
	}
}

// Stop shuts the server down in the administrator's fast way (SIGINT): open
// transactions are ended, what is written is checkpointed.
func (s *Server) Stop(ctx context.Context) error {
	if s.process == nil {
		return nil
	}
	_ = s.process.Signal(syscall.SIGINT) // an error means that it has ended
	err := s.process.Wait(ctx)
	s.Kill()
	return err
}

// Pause stops every process of the server (SIGSTOP): connections stay open and
// nobody answers.
func (s *Server) Pause() error { return s.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (s *Server) Resume() error { return s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) error {
	if s.process == nil {
		return fmt.Errorf("signal PostgreSQL: it was not started")
	}
	pid := s.process.PID()
	if err := syscall.Kill(pid, sig); err != nil {
		return fmt.Errorf("signal PostgreSQL: %w", err)
	}
	for _, child := range children(pid) {
		// ESRCH: it ended meanwhile.
		_ = syscall.Kill(child, sig)
	}
	return nil
}

// Remove kills the server and deletes its folder.
func (s *Server) Remove() error {
	s.Kill()
	return os.RemoveAll(s.dir)
}

// Own gives a file or folder of the caller to the server's user.
func (s *Server) Own(path string) error { return s.account.own(path) }
