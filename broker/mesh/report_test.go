package mesh

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestAReplicaSaysOfItselfWhatAPeerAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var release chan struct{}
		long := false
		n, _, b, stop := two(t, func(o *Options) {
			if o.Replica != "a" {
				return
			}
			o.Report = func() []byte {
				if long {
					return make([]byte, MaxReport+1)
				}
				if release != nil {
					<-release
				}
				return []byte("figures of a")
			}
		})
		defer stop()
		if r, err := b.Report(t.Context(), "a"); err != nil || !bytes.Equal(r, []byte("figures of a")) {
			t.Fatalf("report of a: %q, %v", r, err)
		}
		if _, err := b.Report(t.Context(), "c"); !errors.Is(err, ErrNotLinked) {
			t.Errorf("report of a stranger: %v, want %v", err, ErrNotLinked)
		}
		long = true
		if r, err := b.Report(t.Context(), "a"); err != nil || len(r) != 0 {
			t.Errorf("a report over MaxReport: %d bytes, %v; want none", len(r), err)
		}
		long, release = false, make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.Report(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a report that does not come: %v, want %v", err, context.DeadlineExceeded)
		}
		failed := make(chan error, 1)
		go func() {
			_, err := b.Report(context.Background(), "a")
			failed <- err
		}()
		synctest.Wait()
		n.set(true, false)
		n.cut()
		if err := <-failed; !errors.Is(err, ErrNotLinked) {
			t.Errorf("the link lost meanwhile: %v, want %v", err, ErrNotLinked)
		}
		close(release)
	})
}
