package api

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/broker/metrics"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/memory"
	"maestrohub.io/uns/broker/topic"
)

// silent is a shared state that can stop answering.
type silent struct {
	state.Store
	stopped bool
}

func (s *silent) Bucket(ctx context.Context, name string) (state.Bucket, error) {
	b, err := s.Store.Bucket(ctx, name)
	return &silentBucket{b, s}, err
}

type silentBucket struct {
	state.Bucket
	store *silent
}

func (b *silentBucket) Get(ctx context.Context, key string) (state.Record, error) {
	if b.store.stopped {
		<-ctx.Done()
		return state.Record{}, ctx.Err()
	}
	return b.Bucket.Get(ctx, key)
}

func TestTheTokenEndpointGivesUpOnASilentStoreAndCountsWhatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stored, err := memory.Open(memory.Options{})
		fatal(t, err)
		store := &silent{Store: stored}
		who, err := access.Open(t.Context(), store, access.Options{Grammar: topic.Grammar{}})
		fatal(t, err)
		secret, err := who.Add(t.Context(), access.Client{ID: "press-7", Workspace: "plant"}, "")
		fatal(t, err)
		m := metrics.New()
		a := New(Options{Access: who, Metrics: m, Log: slog.New(slog.DiscardHandler)})
		// Whoever asks waits for an answer for as long as it takes.
		ask := func(secret string) int {
			r := httptest.NewRequest(http.MethodPost, "/api/v1/oauth2/token", strings.NewReader("grant_type=client_credentials"))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.SetBasicAuth("press-7", secret)
			w := httptest.NewRecorder()
			a.Handler().ServeHTTP(w, r)
			return w.Code
		}
		for _, c := range []struct {
			name, secret string
			stopped      bool
			status       int
			reason       string
			after        time.Duration
		}{
			{"right", secret, false, http.StatusOK, "refused", 0},
			{"wrong", "wrong", false, http.StatusUnauthorized, "refused", 0},
			{"silent", secret, true, http.StatusServiceUnavailable, "unavailable", signInBound},
		} {
			store.stopped = c.stopped
			begun, before := time.Now(), testutil.ToFloat64(m.SignInFailures.WithLabelValues(c.reason))
			status := ask(c.secret)
			counted := testutil.ToFloat64(m.SignInFailures.WithLabelValues(c.reason)) - before
			if want := map[bool]float64{false: 1}[c.status == http.StatusOK]; status != c.status || counted != want || time.Since(begun) != c.after {
				t.Errorf("%s: status %d after %v, %v counted as %s; want %d after %v, %v counted", c.name, status, time.Since(begun), counted, c.reason, c.status, c.after, want)
			}
		}
		who.Close()
		fatal(t, stored.Close())
	})
}
