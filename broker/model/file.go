package model

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long a file must have been left alone before it is read
	// again: an editor may empty it first and write it in pieces.
	settle = 100 * time.Millisecond
	// recheck is how often the file is read without a notification: file systems
	// over a network send none.
	recheck = 10 * time.Second
)

// File is a model file that is read again when it changes. A changed file that
// is wrong is refused as a whole; the model before it stays in force.
type File struct {
	path    string
	log     *slog.Logger
	current atomic.Pointer[Model]
	failure atomic.Pointer[error] // why the file as it is now is refused, nil if it is not

	seen   [sha256.Size]byte // of the content read last; owned by the goroutine
	closed sync.Once
	stop   chan struct{}
	done   chan struct{}
}

// Open reads the model file and watches it until Close. A file that is missing
// or wrong is an error here, when nothing is in force yet. Without a path the
// model is Empty for good.
func Open(path string, log *slog.Logger) (*File, error) {
	f := &File{path: path, log: log, stop: make(chan struct{}), done: make(chan struct{})}
	if path == "" {
		f.current.Store(Empty())
		close(f.done)
		return f, nil
	}
	// Watched before it is read: what changes in between is noticed.
	changes, watch := f.watcher()
	m, sum, err := load(path)
	if err != nil {
		if watch != nil {
			watch.Close()
		}
		return nil, err
	}
	f.current.Store(m)
	f.seen = sum
	go f.run(changes, watch)
	return f, nil
}

// Fixed returns a File that is in no file: m is in force for good.
func Fixed(m *Model) *File {
	f := &File{stop: make(chan struct{}), done: make(chan struct{})}
	f.current.Store(m)
	close(f.done)
	return f
}

// Current returns the model in force.
func (f *File) Current() *Model { return f.current.Load() }

// Err returns why the file as it is now was refused; nil if Current is what it
// says.
func (f *File) Err() error {
	if err := f.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// Close ends the watching. Current stays what it is.
func (f *File) Close() {
	f.closed.Do(func() { close(f.stop) })
	<-f.done
}

func load(path string) (*Model, [sha256.Size]byte, error) {
	data, err := read(path)
	if err != nil {
		return nil, [sha256.Size]byte{}, fmt.Errorf("read model file: %w", err)
	}
	m, err := Parse(data)
	if err != nil {
		return nil, sha256.Sum256(data), fmt.Errorf("%s: %w", path, err)
	}
	return m, sha256.Sum256(data), nil
}

// read reads the file, but no more than Parse needs to refuse it for its size.
func read(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, MaxFileBytes+1))
}

// watcher watches the folder of the path, not the file: a file that is replaced
// by renaming another over it is another file, and a ConfigMap changes by a link
// in that folder. Without notifications (there are limits to them) the file is
// still read every recheck.
func (f *File) watcher() (<-chan fsnotify.Event, *fsnotify.Watcher) {
	watch, err := fsnotify.NewWatcher()
	if err == nil {
		if err = watch.Add(filepath.Dir(f.path)); err == nil {
			f.follow(watch)
			return watch.Events, watch
		}
		watch.Close()
	}
	f.log.Warn("embedded broker: no notifications for the model file, it is read at intervals instead", "file", f.path, "interval", recheck, "error", err)
	return nil, nil
}

// follow watches the folder the path's links lead to as well. What it was
// before is gone by itself, or does no harm.
func (f *File) follow(watch *fsnotify.Watcher) {
	if target, err := filepath.EvalSymlinks(f.path); err == nil {
		if err := watch.Add(filepath.Dir(target)); err != nil {
			f.log.Warn("embedded broker: no notifications for what the model file links to, it is read at intervals instead", "file", f.path, "target", target, "interval", recheck, "error", err)
		}
	}
}

func (f *File) run(changes <-chan fsnotify.Event, watch *fsnotify.Watcher) {
	defer close(f.done)
	var failures <-chan error
	if watch != nil {
		defer watch.Close()
		failures = watch.Errors
	}
	settled := time.NewTimer(settle) // what changed while Open read it
	defer settled.Stop()
	interval := time.NewTicker(recheck)
	defer interval.Stop()
	for {
		select {
		case <-f.stop:
			return
		case <-changes:
			settled.Reset(settle)
			continue
		case <-failures: // events were lost: read it
			settled.Reset(settle)
			continue
		case <-settled.C:
		case <-interval.C:
		}
		f.reload()
		if watch != nil {
			f.follow(watch)
		}
	}
}

// reload takes the file in force if it has changed and is right.
func (f *File) reload() {
	data, err := read(f.path)
	if err != nil {
		f.seen = [sha256.Size]byte{} // the same content later is news
		f.refuse(fmt.Errorf("read model file: %w", err))
		return
	}
	sum := sha256.Sum256(data)
	if sum == f.seen {
		return
	}
	f.seen = sum
	m, err := Parse(data)
	if err != nil {
		f.refuse(fmt.Errorf("%s: %w", f.path, err))
		return
	}
	f.current.Store(m)
	f.failure.Store(nil)
	f.log.Info("embedded broker: model file taken", "file", f.path, "workspaces", len(m.workspaces), "bindings", m.bindings)
}

func (f *File) refuse(err error) {
	if was := f.Err(); was != nil && was.Error() == err.Error() {
		return // said already
	}
	f.failure.Store(&err)
	var invalid *InvalidError
	if errors.As(err, &invalid) {
		f.log.Error("embedded broker: model file refused, the model before it stays in force", "file", f.path, "problems", invalid.Total, "error", err)
		return
	}
	f.log.Error("embedded broker: model file not readable, the model stays in force", "file", f.path, "error", err)
}
