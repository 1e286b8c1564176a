package certificate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Options say which files to follow. CertFile with KeyFile, or CAFile, or all three.
type Options struct {
	CertFile string // PEM chain
	KeyFile  string // PEM key
	CAFile   string // PEM certificates
	// Prefix begins the log's messages, Name says whose certificate it is: "mesh: ", "mesh certificate".
	Prefix, Name string
	Taken        func(*Set)  // is told of each set once it is current, of the first within Open; nil = nobody
	Rejected     func(error) // is told why changed files were not taken; nil = nobody
	Log          *slog.Logger
}

// Follower has the newest set of the files.
type Follower struct {
	options Options
	current atomic.Pointer[Set]
	cancel  context.CancelFunc
	done    sync.WaitGroup
}

const (
	// unseenAfter is how often the files are read when no change is announced (network file systems do not).
	unseenAfter = 30 * time.Second
	// settle is how long nothing must have changed: writers change the files one after the other.
	settle = 100 * time.Millisecond
	// tries is how often files that do not fit together are read again before it is reported.
	tries = 10
)

// Open reads the files and follows them until Close.
func Open(o Options) (*Follower, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if (o.CertFile == "") != (o.KeyFile == "") || o.CertFile == "" && o.CAFile == "" {
		return nil, errors.New("a certificate needs its key, and something must be followed")
	}
	f := &Follower{options: o}
	first, err := o.read()
	if err != nil {
		return nil, err
	}
	f.take(first)
	if time.Now().After(first.NotAfter()) {
		o.Log.Warn(o.Prefix+"the "+o.Name+" has ended, others will refuse it", "file", o.first(), "not_after", first.NotAfter())
	}
	watcher, err := f.watch()
	if err != nil {
		o.Log.Warn(o.Prefix+"changes of the "+o.Name+" are not announced, looking every "+unseenAfter.String(), "error", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	f.done.Go(func() { f.follow(ctx, watcher) })
	return f, nil
}

// Check reads the files once, as Open does.
func Check(o Options) error {
	_, err := o.read()
	return err
}

// Current is the set in use.
func (f *Follower) Current() *Set { return f.current.Load() }

// Close stops following. Current stays.
func (f *Follower) Close() {
	f.cancel()
	f.done.Wait()
}

// first is the file by which the log names the set.
func (o *Options) first() string {
	if o.CertFile != "" {
		return o.CertFile
	}
	return o.CAFile
}

func (f *Follower) take(s *Set) {
	f.current.Store(s)
	if f.options.Taken != nil {
		f.options.Taken(s)
	}
}

func (f *Follower) watch() (*fsnotify.Watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	for _, file := range []string{f.options.CertFile, f.options.KeyFile, f.options.CAFile} {
		if file == "" {
			continue
		}
		if err := w.Add(filepath.Dir(file)); err != nil {
			_ = w.Close()
			return nil, fmt.Errorf("watch directory of %s: %w", file, err)
		}
	}
	return w, nil
}

// follow takes changes into use. A state that does not fit together is given a moment before it is reported.
func (f *Follower) follow(ctx context.Context, w *fsnotify.Watcher) {
	var events <-chan fsnotify.Event
	var lost <-chan error
	if w != nil {
		defer func() { _ = w.Close() }()
		events, lost = w.Events, w.Errors
	}
	timer := time.NewTimer(unseenAfter)
	defer timer.Stop()
	tried := 0
	var reported string
	for {
		select {
		case <-ctx.Done():
			return
		case <-events:
			tried = 0
			timer.Reset(settle)
		case <-lost: // events were: look
			timer.Reset(settle)
		case <-timer.C:
			timer.Reset(unseenAfter)
			err := f.reload()
			if err == nil {
				tried, reported = 0, ""
				continue
			}
			if tried++; tried < tries {
				timer.Reset(settle)
			} else if err.Error() != reported {
				reported = err.Error()
				f.options.Log.Error(f.options.Prefix+f.options.Name+" not reloaded, the earlier one stays in use", "error", err)
				if f.options.Rejected != nil {
					f.options.Rejected(err)
				}
			}
		}
	}
}

// reload takes the files into use if they differ from those in use.
func (f *Follower) reload() error {
	next, err := f.options.read()
	if err != nil {
		return err
	}
	if next.digest == f.Current().digest {
		return nil
	}
	if end := next.NotAfter(); time.Now().After(end) {
		return fmt.Errorf("certificate %s: ended %s", f.options.first(), end.Format(time.RFC3339))
	}
	f.options.Log.Info(f.options.Prefix+f.options.Name+" reloaded", "file", f.options.first(), "not_after", next.NotAfter())
	f.take(next)
	return nil
}
