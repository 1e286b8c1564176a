package replica

import (
	"context"
	"io/fs"
	"path/filepath"
	"time"
)

// bytesBelow is what the files below dir take; false if that cannot be known.
func bytesBelow(dir string) (float64, bool) {
	var total int64
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		// A file that a compaction has just removed takes nothing.
		if info, err := entry.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return float64(total), err == nil
}

// countModels counts what became of changes of the model file. It looks once a
// second: two changes within one count once.
func (r *Replica) countModels(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	current, refused := r.model.Current(), r.model.Err()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if m := r.model.Current(); m != current {
			current = m
			r.metrics.ModelReloads.WithLabelValues("loaded").Inc()
		}
		err := r.model.Err()
		if err != nil && (refused == nil || refused.Error() != err.Error()) {
			r.metrics.ModelReloads.WithLabelValues("rejected").Inc()
		}
		refused = err
	}
}
