package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"maestrohub.io/uns/broker/state"
)

// WillOutcome is what became of a will that was due.
type WillOutcome uint8

const (
	// WillSent: it is stored and its record gone.
	WillSent WillOutcome = iota
	// WillDead: its device is back, or left properly.
	WillDead
	// WillRefused: the chain refused it for a cause that stays.
	WillRefused
	// WillElsewhere: somebody else changed the record; the watch tells how.
	WillElsewhere
	// WillFenced: the right to send it ended meanwhile. Nothing left afterwards.
	WillFenced
)

// ErrWillRefused is wrapped by a Publish that refused a will for a cause that no
// repetition changes.
var ErrWillRefused = errors.New("will refused")

// WillSender sends wills: one that is due at a replica that serves its lost
// connection, or, at the elected replica, one of an ended incarnation.
//
//	mark sending (by, timestamp) → touch the owner record → publish → delete
//
// Each step is a conditional write and the clock is compared before each. A sender
// that dies anywhere leaves a record the next one continues from; the value carries the
// same timestamp and row id then, so the historian stores it once.
type WillSender struct {
	Wills, Owners state.Bucket
	Floor         func() Format
	// Publish puts the will through the chain and returns when its value is
	// stored. An error that does not wrap ErrWillRefused is tried again later.
	Publish func(ctx context.Context, w *Will) error
}

// Send sends the will at the revision, whose connection ended as how. may is
// Deadline.MayAct for an own lost connection, Deadline.MayDecide for another's; by is
// that Deadline's incarnation. After an error the will is to be tried again.
func (s *WillSender) Send(ctx context.Context, w *Will, revision uint64, how Ending, by Incarnation, may func(time.Time) bool) (WillOutcome, error) {
	d := &Due{w, revision, how}
	outcome, err := s.decide(ctx, d, by, may)
	if err == nil && outcome.decided() {
		err = s.remove(ctx, d, by, may)
	}
	return outcome, err
}

// SendAtLast is Send that tries again, at intervals of pause, until it is decided what
// becomes of the will: nobody else tries, as long as the incarnation lives. An error is
// ctx's.
func (s *WillSender) SendAtLast(ctx context.Context, d Due, by Incarnation, may func(time.Time) bool, pause time.Duration) (WillOutcome, error) {
	for {
		outcome, err := s.decide(ctx, &d, by, may)
		if err == nil && outcome == WillElsewhere {
			// A write that was refused says so little as one whose answer did not come: it may
			// have been this one's own that is in its way, or nothing at all.
			var over bool
			if over, err = s.lookAgain(ctx, &d, by); err == nil && !over {
				err = errBehind
			}
		}
		for err == nil && outcome.decided() {
			if err = s.remove(ctx, &d, by, may); err == nil {
				return outcome, nil
			}
			if err = rest(ctx, pause); err != nil {
				return outcome, err
			}
		}
		if err == nil {
			return outcome, nil
		}
		if over := rest(ctx, pause); over != nil {
			return outcome, over
		}
	}
}

// errBehind says that a record is not as a write found it.
var errBehind = errors.New("the record was read as it was before, or a write was refused for nothing")

// lookAgain makes the will of a write that was refused what its record holds. over: the
// record is gone, or another sender's.
func (s *WillSender) lookAgain(ctx context.Context, d *Due, by Incarnation) (over bool, err error) {
	r, err := s.Wills.Get(ctx, WillKey(d.Will.Connection))
	switch {
	case errors.Is(err, state.ErrNotFound):
		return r.Revision >= d.Revision, nil // else the read lags
	case err != nil:
		return false, fmt.Errorf("read the will of %q: %w", d.Will.Client, err)
	case r.Revision < d.Revision:
		return false, nil
	}
	w, err := DecodeWill(r.Value)
	if err != nil {
		return false, fmt.Errorf("will of %q: %w", d.Will.Client, err)
	}
	if w.By != by && w.By != (Incarnation{}) {
		return true, nil
	}
	d.Will, d.Revision = w, r.Revision
	return false, nil
}

// decided reports whether nothing is left to do but to delete the record.
func (o WillOutcome) decided() bool { return o == WillSent || o == WillDead || o == WillRefused }

// decide is Send but for the end of the record; the mark it leaves is d's from then on.
func (s *WillSender) decide(ctx context.Context, d *Due, by Incarnation, may func(time.Time) bool) (WillOutcome, error) {
	if !may(time.Now()) {
		return WillFenced, nil
	}
	w := d.Will
	marked := *w
	marked.By = by
	if marked.Timestamp == 0 {
		marked.Timestamp = time.Now().UnixNano()
	}
	revision, err := s.Wills.Update(ctx, WillKey(w.Connection), marked.Encode(s.Floor()), d.Revision)
	switch {
	case errors.Is(err, state.ErrConflict):
		return WillElsewhere, nil
	case err != nil:
		return WillElsewhere, fmt.Errorf("mark the will of %q: %w", w.Client, err)
	}
	d.Will, d.Revision = &marked, revision
	dead, err := s.touch(ctx, &marked, d.How, may)
	switch {
	case errors.Is(err, errFenced) || err == nil && !may(time.Now()):
		return WillFenced, nil
	case err != nil:
		return WillElsewhere, err
	case dead:
		return WillDead, nil
	}
	err = s.Publish(ctx, &marked)
	switch {
	case errors.Is(err, ErrWillRefused):
		return WillRefused, nil
	case err != nil:
		return WillElsewhere, fmt.Errorf("publish the will of %q: %w", w.Client, err)
	}
	return WillSent, nil
}

// remove deletes the record of a will that is over. Left behind it would be sent again
// when its incarnation ends: the same row, and for its subscribers another message.
func (s *WillSender) remove(ctx context.Context, d *Due, by Incarnation, may func(time.Time) bool) error {
	for may(time.Now()) {
		_, err := s.Wills.Delete(ctx, WillKey(d.Will.Connection), d.Revision)
		if err == nil {
			return nil
		}
		if !errors.Is(err, state.ErrConflict) {
			return fmt.Errorf("delete the will of %q: %w", d.Will.Client, err)
		}
		if over, err := s.lookAgain(ctx, d, by); err != nil || over {
			return err
		}
		if err := rest(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("delete the will of %q: %w", d.Will.Client, err)
		}
	}
	return nil
}

var errFenced = errors.New("fenced")

// touch decides by a conditional write whether the will is dead. A read that finds
// another connection, or none, may be stale; a write over what it found is not.
func (s *WillSender) touch(ctx context.Context, w *Will, how Ending, may func(time.Time) bool) (dead bool, err error) {
	for {
		if !may(time.Now()) {
			return false, errFenced
		}
		var next Owner
		r, err := s.Owners.Get(ctx, w.Client)
		switch {
		case errors.Is(err, state.ErrNotFound):
			next = Owner{Connection: w.Connection, Incarnation: w.Incarnation, Identity: w.Identity, Workspace: w.Workspace}.End(how, time.Now())
			_, err = s.Owners.Create(ctx, w.Client, next.Encode(s.Floor()))
		case err == nil:
			if next, err = DecodeOwner(r.Value); err != nil {
				return false, fmt.Errorf("owner of %q: %w", w.Client, err)
			}
			dead = w.dead(&next)
			if !dead {
				next = next.End(how, time.Now())
			}
			if next.Connection == w.Connection && dead {
				return true, nil // left properly: the connection's last word
			}
			_, err = s.Owners.Update(ctx, w.Client, next.Encode(s.Floor()), r.Revision)
		}
		switch {
		case err == nil:
			return dead, nil
		case !errors.Is(err, state.ErrConflict):
			return false, fmt.Errorf("touch the owner of %q: %w", w.Client, err)
		}
		if err := rest(ctx, 5*time.Millisecond); err != nil {
			return false, fmt.Errorf("touch the owner of %q: %w", w.Client, err)
		}
	}
}
