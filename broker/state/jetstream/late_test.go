package jetstream_test

import (
	"errors"
	"testing"
	"time"

	"maestrohub.io/uns/broker/state"
)

// A create whose answer never came lies in a server that hangs, is made again, and the
// record deleted: when the server goes on, the first does not bring the record back. So it is
// for one over nothing and for one over a deletion.
func TestALateCreateIsRefusedByTheDeletionOfWhatWasMadeInstead(t *testing.T) {
	t.Parallel()
	site := ownSite(t, 1)
	account := site.account(t)
	bucket, err := site.open(t, account, nil).Bucket(t.Context(), state.SessionWill)
	if err != nil {
		t.Fatal(err)
	}
	made := func(key string) (revision uint64) {
		t.Helper()
		if revision, err = bucket.Create(t.Context(), key, []byte("made")); err != nil {
			t.Fatal(err)
		}
		if revision, err = bucket.Delete(t.Context(), key, revision); err != nil {
			t.Fatal(err)
		}
		return revision
	}
	deleted := map[string]uint64{"over nothing": 0, "over a deletion": made("over a deletion")}
	hung := follower(t, site, account, state.BucketStream+state.SessionWill)
	late, err := site.open(t, account, first(hung, account)).Bucket(t.Context(), state.SessionWill)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := late.Put(t.Context(), "ready", nil); err != nil {
		t.Fatal(err)
	}
	if err := hung.Pause(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := contextFor(t, 100*time.Millisecond)
	defer cancel()
	sent := make(chan error, len(deleted))
	for key, at := range deleted {
		go func() {
			var err error
			if at == 0 {
				_, err = late.Create(ctx, key, []byte("late"))
			} else { // as a create does that has found the deletion
				_, err = late.Update(ctx, key, []byte("late"), at)
			}
			sent <- err
		}()
	}
	for range deleted {
		if err := <-sent; !errors.Is(err, state.ErrUnknown) {
			t.Fatalf("in a server that hangs: %v", err)
		}
	}
	for key := range deleted {
		deleted[key] = made(key)
	}
	if err := hung.Resume(); err != nil {
		t.Fatal(err)
	}
	ready, over := contextFor(t, time.Minute)
	defer over()
	if err := site.Ready(ready); err != nil {
		t.Fatal(err)
	}
	// What lay in its socket comes before this.
	if _, err := late.Put(ready, "ready", nil); err != nil {
		t.Fatal(err)
	}
	for key, at := range deleted {
		r, err := bucket.Get(t.Context(), key)
		if !errors.Is(err, state.ErrNotFound) || r.Revision != at {
			t.Errorf("%s: %q at revision %d, %v; want what was deleted at %d", key, r.Value, r.Revision, err, at)
		}
	}
}
