package secrets

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// attempts bounds how often Ensure begins again because another was first. Each time at least one of the two got
// further, and there are not that many Secrets.
const attempts = 20

// Ensure makes what the plan lacks. It says what it did, a line for each Secret it wrote, and what somebody should
// look at. With an error that is not the API's, nothing was written.
func Ensure(ctx context.Context, store Store, plan *Plan, say func(line string)) error {
	for range attempts {
		found := map[Ref]*Secret{}
		for _, r := range plan.refs() {
			s, err := store.Read(ctx, r)
			switch {
			case errors.Is(err, ErrMissing):
			case err != nil:
				return fmt.Errorf("read Secret %s: %w", r, err)
			default:
				found[r] = s
			}
		}
		writes, notes, err := decide(plan, found, time.Now())
		for _, n := range notes {
			say("warning: " + n)
		}
		if err != nil {
			return err
		}
		if err = apply(ctx, store, writes, say); !errors.Is(err, ErrConflict) {
			if err == nil && len(writes) == 0 {
				say(fmt.Sprintf("all %d Secrets are there and fit together", len(found)))
			}
			return err
		}
		say("looking again: " + err.Error())
	}
	return fmt.Errorf("another writer was first %d times: is something else changing these Secrets?", attempts)
}

func apply(ctx context.Context, store Store, writes []write, say func(string)) error {
	for _, w := range writes {
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
