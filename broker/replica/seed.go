package replica

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"

	"maestrohub.io/uns/broker/access"
)

const (
	// settle is how long the content of a changed file must have been the same
	// before it is judged: editors and Kubernetes write in several steps.
	settle = 200 * time.Millisecond
	// recheck is how often the file is looked at without a notification (file
	// systems over a network send none), and how long until clients that could not
	// be stored are tried again.
	recheck = 10 * time.Second
)

// sight is a file as it was found: its content, or why it cannot be read.
type sight struct {
	data []byte
	err  error
}

func (s sight) same(as sight) bool {
	return bytes.Equal(s.data, as.data) && (s.err == nil) == (as.err == nil) && (s.err == nil || s.err.Error() == as.err.Error())
}

// seeder puts the clients of a file (or of the files of a folder) into the store, at start and again when the
// file changes. A file that is wrong at start stops the start; one that becomes
// wrong later is reported, once, and what was there stays.
type seeder struct {
	path  string
	check func(data []byte) error
	seed  func(ctx context.Context, data []byte) error
	log   *slog.Logger

	failure atomic.Pointer[error] // why the file as it is now is not taken, nil if it is

	// Owned by the goroutine of run.
	judged   *sight // taken or refused; nil: to be judged anew
	pending  *sight // seen by the last look, not judged: it may still be being written
	unstored bool   // the store took not all of judged
}

// once reads and seeds the file at start, when what is wrong with it is an error.
func (s *seeder) once(ctx context.Context) error {
	now := s.read()
	err := now.err
	if err == nil {
		err = s.seed(ctx, now.data)
	}
	if err != nil {
		return fmt.Errorf("clients file %s: %w", s.path, err)
	}
	s.judged = &now
	return nil
}

func (s *seeder) read() sight {
	data, err := readClients(s.path)
	return sight{data, err}
}

// readClients reads a clients file, or all *.yaml of a folder as one. Names that
// begin with a dot are not clients files: Kubernetes keeps its own there.
func readClients(path string) ([]byte, error) {
	if !isFolder(path) {
		return os.ReadFile(path)
	}
	names, err := filepath.Glob(filepath.Join(path, "[^.]*.yaml"))
	if err != nil {
		return nil, err
	}
	files := make([]access.SeedFile, len(names))
	for i, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files[i] = access.SeedFile{Name: filepath.Base(name), Data: data}
	}
	return access.JoinSeeds(files)
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// err says why the file as it is now is not taken, nil if it is.
func (s *seeder) err() error {
	if err := s.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// run follows the file until ctx is done. Notifications are of its directory, since
// a file that is replaced (an editor's rename, a ConfigMap's link swap) takes a watch
// on the file itself along with it; they only say when to look. What is done depends
// on the file's content alone, and a busy directory puts no look off.
func (s *seeder) run(ctx context.Context) {
	events, failures := s.watch(ctx)
	interval := time.NewTicker(recheck)
	defer interval.Stop()
	look := time.NewTimer(0) // the file may have changed between start and watch
	defer look.Stop()
	waiting := true // for look: events do not begin its time anew
	soon := func() {
		if !waiting {
			look.Reset(settle)
			waiting = true
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-events:
			soon()
		case <-failures: // events were lost
			soon()
		case <-interval.C:
			if s.unstored {
				s.judged = nil // as if it had just changed
			}
			soon()
		case <-look.C:
			if waiting = false; !s.look(ctx) {
				soon()
			}
		}
	}
}

// watch returns the notifications of the file's directory until ctx is done; none
// where there are none to be had.
func (s *seeder) watch(ctx context.Context) (<-chan fsnotify.Event, <-chan error) {
	w, err := fsnotify.NewWatcher()
	if err == nil {
		dir := s.path
		if !isFolder(dir) {
			dir = filepath.Dir(dir)
		}
		if err = w.Add(dir); err == nil {
			context.AfterFunc(ctx, func() { _ = w.Close() })
			return w.Events, w.Errors
		}
		_ = w.Close()
	}
	s.log.Warn("no notifications for the clients file, it is read at intervals instead", "file", s.path, "interval", recheck, "error", err)
	return nil, nil
}

// look judges the file if its content is new and as it was at the look before; false
// means that it wants another look.
func (s *seeder) look(ctx context.Context) bool {
	now := s.read()
	if s.judged != nil && now.same(*s.judged) {
		s.pending = nil
		return true
	}
	if s.pending == nil || !now.same(*s.pending) {
		s.pending = &now
		return false
	}
	s.judged, s.pending = &now, nil
	what, err := "clients file not taken; the clients stay as they were", now.err
	if err == nil {
		err = s.check(now.data)
	}
	if s.unstored = false; err == nil {
		err = s.seed(ctx, now.data)
		what, s.unstored = "clients of the file not stored; tried again", err != nil
	}
	s.judge(ctx, what, err)
	return true
}

// judge keeps why the file is not taken and logs what is new about it.
func (s *seeder) judge(ctx context.Context, what string, err error) {
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		s.failure.Store(nil)
		s.log.Info("clients file read", "file", s.path)
		return
	}
	err = fmt.Errorf("clients file %s: %w", s.path, err)
	if was := s.err(); was == nil || was.Error() != err.Error() {
		s.log.Error(what, "error", err)
	}
	s.failure.Store(&err)
}
