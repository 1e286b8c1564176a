package secrets

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"
)

// attempts bounds how often Ensure begins again because another was first. Each time at least one of the two got
// further, and there are not that many Secrets.
const attempts = 20

// Ensure makes what the plan lacks. It says what it did, a line for each Secret it wrote, and what somebody should
// look at. With an error that is not the API's, nothing was written.
//
// Settle is how long it waits between renewed passwords and the accounts that know their hashes: until those who sign
// in have the new password, so that the servers, which then take no other, are not first.
func Ensure(ctx context.Context, store Store, plan *Plan, settle time.Duration, say func(line string)) error {
	var refused map[Ref]*Secret // what was found when it was refused last
	for range attempts {
		found, err := readAll(ctx, store, plan)
		if err != nil {
			return err
		}
		writes, notes, err := decide(plan, found, time.Now())
		if err != nil {
			// Another Job may have written between two of the reads: only what is still so is refused.
			if same(refused, found) {
				return err
			}
			refused = found
			continue
		}
		for _, n := range notes {
			say("warning: " + n)
		}
		if err = apply(ctx, store, writes, settle, say); !errors.Is(err, ErrConflict) {
			if err == nil && len(writes) == 0 {
				say(fmt.Sprintf("all %d Secrets are there and fit together", len(found)))
			}
			return err
		}
		say("looking again: " + err.Error())
	}
	return fmt.Errorf("another writer was first %d times: is something else changing these Secrets?", attempts)
}

func apply(ctx context.Context, store Store, writes []write, settle time.Duration, say func(string)) error {
	for _, w := range writes {
		if w.settles && settle > 0 {
			say(fmt.Sprintf("waiting %v until every pod has the new passwords", settle))
			select {
			case <-ctx.Done():
				return fmt.Errorf("write Secret %s: %w; the next run goes on from here", w.ref(), context.Cause(ctx))
			case <-time.After(settle):
			}
		}
		var err error
		if w.create != nil {
			err = store.Create(ctx, w.create)
		} else {
			err = store.Change(ctx, *w.change)
		}
		if err != nil {
			return fmt.Errorf("write Secret %s: %w", w.ref(), err)
		}
		say(w.why + ": Secret " + w.ref().String())
	}
	return nil
}

// readAll reads every Secret of the plan; a missing one has no entry.
func readAll(ctx context.Context, store Store, plan *Plan) (map[Ref]*Secret, error) {
	found := map[Ref]*Secret{}
	for _, r := range plan.refs() {
		s, err := store.Read(ctx, r)
		switch {
		case errors.Is(err, ErrMissing):
		case err != nil:
			return nil, fmt.Errorf("read Secret %s: %w", r, err)
		default:
			found[r] = s
		}
	}
	return found, nil
}

// same says whether two readings found the same; nil is no reading.
func same(a, b map[Ref]*Secret) bool {
	return a != nil && maps.EqualFunc(a, b, func(a, b *Secret) bool { return a.Revision == b.Revision })
}
