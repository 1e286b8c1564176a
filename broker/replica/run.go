package replica

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Run opens the listeners and serves until ctx is done, then stops in order; it
// returns nil after a stop that was asked for and complete. Run may be called once.
func (r *Replica) Run(ctx context.Context) (err error) {
	background, cancel := context.WithCancel(context.Background())
	var tasks sync.WaitGroup
	defer func() {
		cancel()
		tasks.Wait()
		if closed := r.close(); closed != nil {
			err = errors.Join(err, closed)
		}
		r.log.Info("stopped", "replica", r.id)
	}()
	for _, p := range r.probes {
		// Once before anybody can ask, so that a start is ready when it is open.
		if _, err := p.once(ctx); err != nil {
			r.log.Error(p.name+" does not take writes", "error", err)
		}
		tasks.Go(func() { p.run(background, r.log, func() { _ = r.ready() }) }) // ready keeps the gauge
	}
	if r.seeder != nil {
		tasks.Go(func() { r.seeder.run(background) })
	}
	tasks.Go(func() { r.countModels(background) })
	if r.member != nil {
		r.member.run(background, tasks.Go)
	}
	doors, err := r.openDoors()
	if err != nil {
		bound, cancel := context.WithTimeout(context.Background(), headroom)
		defer cancel()
		return errors.Join(err, r.server.Stop(bound), r.ingest.Stop(bound))
	}
	r.doors.Store(doors)
	_ = r.ready() // keeps the gauge
	for _, l := range doors.listeners() {
		if l.Name == "http" {
			continue // since New
		}
		r.log.Info("listening", "listener", l.Name, "address", l.Address)
	}
	if r.member == nil {
		r.log.Info("broker cluster: single node, sessions in memory", "replica", r.id)
	}
	close(r.started)
	select {
	case <-ctx.Done():
	case err = <-doors.failed:
		r.log.Error("stopping", "error", err)
	}
	return errors.Join(err, r.stop(doors))
}

// stop lets no client wait and loses nothing: see doc.go.
func (r *Replica) stop(d *doors) error {
	r.stopping.Store(true)
	r.log.Info("stopping: clients are disconnected, what they sent is settled", "clients", r.server.Stats().Clients, "within", StopBound)
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), StopBound-headroom)
	defer cancel()
	if r.member != nil {
		r.member.member.Stopping()
	}
	d.close()
	var err error
	var both sync.WaitGroup
	both.Go(func() { d.shut(ctx) })
	if stopped := r.server.Stop(ctx); stopped != nil {
		err = errors.Join(err, stopped)
		r.log.Warn("clients had publishes under way that are not settled; they are not acknowledged and come again", "error", stopped)
	}
	both.Wait()
	// Past the bound the chain still says Shed to what is left, at once.
	if drained := r.ingest.Stop(ctx); drained != nil {
		err = errors.Join(err, drained)
		r.log.Warn("values left in the lanes; they are not acknowledged and come again", "error", drained)
	}
	if r.member != nil {
		// In time of its own: a stop that could not settle everything is one that the
		// others need not wait for either.
		last, cancel := context.WithTimeout(context.Background(), headroom/2)
		if left := r.member.member.Stop(last); left != nil {
			err = errors.Join(err, left)
		}
		cancel()
	}
	r.log.Info("clients disconnected, lanes drained", "after", time.Since(began).Round(time.Millisecond))
	return err
}
