package replica

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is how long a changed file is left alone before it is read: editors and
// Kubernetes write in several steps.
const settle = 200 * time.Millisecond

// seeder puts the clients of a file into the store, at start and again when the
// file changes. A file that is wrong at start stops the start; one that becomes
// wrong later is reported and what was there stays.
type seeder struct {
	path string
	seed func(ctx context.Context, data []byte) error
	log  *slog.Logger
	last []byte // what was seeded last, owned by the goroutine of run
}

// once reads and seeds the file if its content is new.
func (s *seeder) once(ctx context.Context) error {
	data, err := os.ReadFile(s.path)
	if err != nil {
		return fmt.Errorf("clients file: %w", err)
	}
	if s.last != nil && bytes.Equal(data, s.last) {
		return nil
	}
	if err := s.seed(ctx, data); err != nil {
		return fmt.Errorf("clients file %s: %w", s.path, err)
	}
	s.last = data
	return nil
}

// run watches the file until ctx is done. It watches the directory, since a file
// that is replaced (an editor's rename, a ConfigMap's link swap) takes a watch on
// the file itself along with it.
func (s *seeder) run(ctx context.Context) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch clients file: %w", err)
	}
	defer w.Close()
	if err := w.Add(filepath.Dir(s.path)); err != nil {
		return fmt.Errorf("watch clients file: %w", err)
	}
	changed := time.NewTimer(0) // the file may have changed between start and watch
	defer changed.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.Events:
			changed.Reset(settle)
		case err := <-w.Errors:
			s.log.Warn("clients file may have changed unseen", "file", s.path, "error", err)
			changed.Reset(settle)
		case <-changed.C:
			before := s.last
			if err := s.once(ctx); err != nil && ctx.Err() == nil {
				s.log.Error("clients file not taken; the clients stay as they were", "error", err)
			} else if !bytes.Equal(before, s.last) {
				s.log.Info("clients file read", "file", s.path)
			}
		}
	}
}
