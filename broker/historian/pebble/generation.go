package pebble

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"

	crdb "github.com/cockroachdb/pebble/v2"
)

// generation is one life of the store inside the process: from an open to the
// first error Pebble does not recover from, or to Close. A failed generation is
// fenced off the disk and a new one is opened once the cause is gone.
type generation struct {
	dir string
	log *slog.Logger
	fs  *fencedFS
	db  *crdb.DB

	// queue holds requests for the writer, written the groups that wait for their
	// sync. failed is closed by fail; stop asks the writer to end what is queued.
	queue   chan *request
	written chan *group
	failed  chan struct{}
	stop    chan struct{}
	ended   chan struct{} // closed once nothing is completed any more
	once    sync.Once
	cause   atomic.Pointer[error] // set before failed is closed
	// onFail tells the supervisor; it must not block.
	onFail func()

	// workers are the writer, the syncer and retention.
	workers sync.WaitGroup
	// use is held for reading while db is read outside the workers, and for
	// writing to close it.
	use    sync.RWMutex
	closed bool

	// The writer's own.
	catalogue *catalogue
	topics    *topics
	positions positions
	inGroup   map[rowKey]uint64
	filled    bool   // inGroup holds the group's timed rows
	key       rowKey // of the row being written

	retention retention
}

// openGeneration opens the store. next is the least Position that may be given out.
func openGeneration(h *Historian, next uint64) (opened *generation, err error) {
	g := &generation{
		dir: h.dir, log: h.log, onFail: h.generationFailed,
		queue: make(chan *request, 256), written: make(chan *group, 64),
		failed: make(chan struct{}), stop: make(chan struct{}), ended: make(chan struct{}),
		inGroup: make(map[rowKey]uint64),
	}
	g.fs = newFencedFS(h.fs, g.fail)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("open history: %v\n%s", p, debug.Stack())
		}
		if err != nil {
			g.fs.raise()
		}
	}()
	cache := crdb.NewCache(cacheBytes)
	defer cache.Unref()
	g.db, err = crdb.Open(h.dir, storeOptions(g.fs, h.lock, cache, g.events(), &pebbleLog{g}))
	if err != nil {
		if cause := g.cause.Load(); cause != nil {
			err = *cause // what Pebble met behind the fence is no news
		}
		return nil, fmt.Errorf("open history: %w", err)
	}
	if err := g.load(h, next); err != nil {
		g.fs.raise()
		return nil, errors.Join(fmt.Errorf("open history: %w", err), g.closeDB())
	}
	if cause := g.cause.Load(); cause != nil {
		return nil, errors.Join(fmt.Errorf("open history: %w", *cause), g.closeDB())
	}
	return g, nil
}

// load reads what the writer keeps in memory and checks the format.
func (g *generation) load(h *Historian, next uint64) error {
	format, err := meta(g.db, metaFormat)
	if err != nil {
		return err
	}
	if format > storeFormat {
		return fmt.Errorf("%w: format %d, this release reads up to %d", errFormat, format, storeFormat)
	}
	if format == 0 {
		if err := g.db.Set(metaKey(metaFormat), binaryNumber(storeFormat), crdb.Sync); err != nil {
			return err
		}
	}
	reserved, err := meta(g.db, metaPositions)
	if err != nil {
		return err
	}
	g.positions = positions{next: max(reserved, next, 1), reserved: reserved}
	if g.catalogue, err = loadCatalogue(g.db, h.segmentTarget()); err != nil {
		return err
	}
	if g.topics, err = loadTopics(g.db); err != nil {
		return err
	}
	g.retention.init(h.opts, g.catalogue)
	return nil
}

// start starts the workers.
func (g *generation) start() {
	g.workers.Go(g.write)
	g.workers.Go(g.sync)
	g.workers.Go(g.retain)
}

// fail ends the generation: from here on nothing it does reaches the disk, and
// who waits for it is told. It may be called under Pebble's locks.
func (g *generation) fail(cause error) {
	g.once.Do(func() {
		g.fs.raise()
		g.cause.Store(&cause)
		close(g.failed)
		g.onFail()
	})
}

// isFailed reports whether fail was called. What is not failed yet may still be
// fenced already: only fs.raised tells whether something is durable.
func (g *generation) isFailed() bool { return g.cause.Load() != nil }

// close ends the workers, having done what is queued unless the generation failed,
// and closes the store.
func (g *generation) close() error {
	close(g.stop)
	g.workers.Wait()
	return g.closeDB()
}

func (g *generation) closeDB() (err error) {
	g.use.Lock()
	defer g.use.Unlock()
	g.closed = true
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("close history: %v", p)
		}
	}()
	if err := g.db.Close(); err != nil {
		return fmt.Errorf("close history: %w", err)
	}
	return nil
}

// acquire keeps the store open until release.
func (g *generation) acquire() bool {
	g.use.RLock()
	if g.closed || g.isFailed() {
		g.use.RUnlock()
		return false
	}
	return true
}

func (g *generation) release() { g.use.RUnlock() }
