package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"maestrohub.io/uns/broker/state"
)

// ErrBelowFloor: the cluster writes formats this release does not read, or this
// release can no longer write the one the cluster writes.
var ErrBelowFloor = errors.New("the format floor is none of this release's formats")

// touch is how an incarnation joins under the floor that was read: the record to
// write over it. Whoever raises the floor at the same time read it before it looked at
// the members; so either it saw this incarnation's entry, which landed earlier, or one
// of the two writes fails.
func (f Floor) touch(by Incarnation, oldest, newest Format) (Floor, error) {
	if f.Format > newest || f.Format < oldest {
		return f, fmt.Errorf("%w: floor %d, formats %d to %d", ErrBelowFloor, f.Format, oldest, newest)
	}
	return Floor{f.Format, by}, nil
}

// raised is the floor that the members allow: the newest format all of them read.
// Whoever may come back counts, fenced ones too; only the gone and the stopped do not.
func (f Floor) raised(members []Entry) Format {
	if len(members) == 0 {
		return f.Format
	}
	newest := members[0].Newest
	for _, e := range members {
		newest = min(newest, e.Newest)
		if f.Format < e.Oldest && newest < e.Oldest {
			return f.Format
		}
	}
	return max(f.Format, newest)
}

// joinFloor touches the floor record and returns the floor. A cluster without one
// begins at the oldest format: raising needs a proof, lowering is impossible.
func joinFloor(ctx context.Context, b state.Bucket, by Incarnation, oldest, newest Format) (Format, error) {
	for {
		r, err := b.Get(ctx, FloorKey)
		switch {
		case errors.Is(err, state.ErrNotFound):
			_, err = b.Create(ctx, FloorKey, Floor{oldest, by}.Encode())
			if err == nil {
				return oldest, nil
			}
		case err != nil:
			return 0, fmt.Errorf("read the format floor: %w", err)
		default:
			f, err2 := DecodeFloor(r.Value)
			if err2 != nil {
				return 0, fmt.Errorf("read the format floor: %w", err2)
			}
			if f.Touched == by {
				return f.Format, nil // a write of unknown outcome landed
			}
			next, err2 := f.touch(by, oldest, newest)
			if err2 != nil {
				if f.Format > newest {
					newer.Add(1)
				}
				return f.Format, err2
			}
			if _, err = b.Update(ctx, FloorKey, next.Encode(), r.Revision); err == nil {
				return next.Format, nil
			}
		}
		if !errors.Is(err, state.ErrConflict) && !errors.Is(err, state.ErrUnknown) || ctx.Err() != nil {
			return 0, fmt.Errorf("touch the format floor: %w", err)
		}
		if err := rest(ctx, 10*time.Millisecond); err != nil {
			return 0, fmt.Errorf("touch the format floor: %w", err)
		}
	}
}

// RaiseFloor raises the floor to the newest format all members read, if that is
// higher, and returns the floor then known. d is what it decides under. A conflict
// means that a replica joined meanwhile, and is no error: the next sweep tries again.
func (m *Member) RaiseFloor(ctx context.Context, d *Deadline) (Format, error) {
	known := m.Floor()
	if (Floor{Format: known}).raised(m.Members()) <= known {
		return known, nil
	}
	// Read first, then check who is there: see Floor.touch.
	r, err := m.floors.Get(ctx, FloorKey)
	if err != nil {
		return m.Floor(), fmt.Errorf("raise the format floor: %w", err)
	}
	f, err := DecodeFloor(r.Value)
	if err != nil {
		return m.Floor(), fmt.Errorf("raise the format floor: %w", err)
	}
	if err := m.Complete(ctx); err != nil {
		return f.Format, fmt.Errorf("raise the format floor: %w", err)
	}
	next := f.raised(m.Members())
	if next <= f.Format || !d.MayDecide(time.Now()) {
		return f.Format, nil
	}
	_, err = m.floors.Update(ctx, FloorKey, Floor{next, f.Touched}.Encode(), r.Revision)
	if errors.Is(err, state.ErrConflict) {
		return f.Format, nil
	}
	if err != nil {
		return f.Format, fmt.Errorf("raise the format floor: %w", err)
	}
	return next, nil
}

// rest waits, or returns ctx's error.
func rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
