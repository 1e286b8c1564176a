package server

import (
	"context"
	"time"

	"maestrohub.io/uns/broker/state"
)

// sizeEvery is how often the size of a session log is asked for: as often as it is
// scraped, about, and not at each scrape, which must not wait for the store.
const sizeEvery = 15 * time.Second

// measure keeps the metric of a log's size until the server stops. While the store
// does not answer it stays what it was.
func (w *workspace) measure(ctx context.Context, log state.Log) {
	sizer, ok := log.(state.Sizer)
	if !ok {
		return
	}
	tick := time.NewTicker(sizeEvery)
	defer tick.Stop()
	for {
		asked, cancel := context.WithTimeout(ctx, sizeEvery)
		if bytes, err := sizer.Size(asked); err == nil {
			w.server.metrics.SessionLogBytes.WithLabelValues(w.slug).Set(float64(bytes))
		}
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
