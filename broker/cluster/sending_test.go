package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/memory"
)

// lying is a bucket whose answers can be made to lie before they reach the caller.
type lying struct {
	state.Bucket
	get    func(state.Record, error) (state.Record, error)
	wrote  func(revision uint64, err error) (uint64, error)
	before func()
	// instead, if it returns an error, is the answer to a write that is not made.
	instead func() error
}

func (l *lying) Get(ctx context.Context, key string) (state.Record, error) {
	r, err := l.Bucket.Get(ctx, key)
	if l.get != nil {
		return l.get(r, err)
	}
	return r, err
}

func (l *lying) answer(revision uint64, err error) (uint64, error) {
	if l.wrote != nil {
		return l.wrote(revision, err)
	}
	return revision, err
}

func (l *lying) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if l.before != nil {
		l.before()
	}
	if l.instead != nil {
		if err := l.instead(); err != nil {
			return 0, err
		}
	}
	return l.answer(l.Bucket.Update(ctx, key, value, revision))
}

func (l *lying) Delete(ctx context.Context, key string, revision uint64) (uint64, error) {
	if l.instead != nil {
		if err := l.instead(); err != nil {
			return 0, err
		}
	}
	return l.answer(l.Bucket.Delete(ctx, key, revision))
}

func (l *lying) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	return l.answer(l.Bucket.Create(ctx, key, value))
}

// sending is a will that is due and everything to send it with.
type sending struct {
	t        *testing.T
	store    *memory.Store
	wills    *lying
	owners   *lying
	sender   *WillSender
	will     *Will
	revision uint64
	sent     []*Will
	publish  error
	may      bool
	during   func() // in Publish
}

var decider = life1("z", 9)

func newSending(t *testing.T) *sending {
	store, err := memory.Open(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	s := &sending{t: t, store: store, may: true, will: aWill(1)}
	w, _ := store.Bucket(t.Context(), state.SessionWill)
	o, _ := store.Bucket(t.Context(), state.Sessions)
	s.wills, s.owners = &lying{Bucket: w}, &lying{Bucket: o}
	s.sender = &WillSender{Wills: s.wills, Owners: s.owners, Floor: func() Format { return 1 },
		Publish: func(_ context.Context, w *Will) error {
			if s.during != nil {
				s.during()
			}
			if s.publish == nil {
				s.sent = append(s.sent, w)
			}
			return s.publish
		}}
	if s.revision, err = w.Create(t.Context(), WillKey(id(1)), s.will.Encode(1)); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *sending) owner(o Owner) uint64 {
	s.t.Helper()
	revision, err := s.owners.Bucket.Put(s.t.Context(), "dev", o.Encode(1))
	if err != nil {
		s.t.Fatal(err)
	}
	return revision
}

func (s *sending) send() (WillOutcome, error) {
	return s.sender.Send(s.t.Context(), s.will, s.revision, EndedGone, decider, func(time.Time) bool { return s.may })
}

// left reports whether the will's record is still there.
func (s *sending) left() bool {
	_, err := s.wills.Bucket.Get(s.t.Context(), WillKey(id(1)))
	return !errors.Is(err, state.ErrNotFound)
}

func (s *sending) expect(outcome WillOutcome, sent int, left bool) {
	s.t.Helper()
	got, err := s.send()
	if err != nil || got != outcome || len(s.sent) != sent || s.left() != left {
		s.t.Errorf("outcome %v, %v, sent %d times, record left %v; want %v, sent %d, left %v", got, err, len(s.sent), s.left(), outcome, sent, left)
	}
}

func TestTheWillOfADeviceThatStayedAwayIsSentOnce(t *testing.T) {
	for name, prepare := range map[string]func(*sending){
		"held by the ended incarnation": func(s *sending) { s.owner(Owner{Connection: id(1), Incarnation: life1("a", 1)}) },
		"lost":                          func(s *sending) { s.owner(Owner{Connection: id(1), Ending: Lost, Ended: 1}) },
		"no owner record":               func(*sending) {},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSending(t)
			prepare(s)
			s.expect(WillSent, 1, false)
			r, err := s.owners.Bucket.Get(t.Context(), "dev")
			if err != nil {
				t.Fatal(err)
			}
			if o, _ := DecodeOwner(r.Value); o.Connection != id(1) || o.Ending == Held {
				t.Errorf("owner afterwards: %+v", o)
			}
		})
	}
}

func TestTheWillOfADeviceThatIsBackOrLeftIsNotSent(t *testing.T) {
	for name, owner := range map[string]Owner{
		"back":                             {Connection: id(2), Incarnation: life1("b", 1)},
		"back and left properly":           {Connection: id(2), Ending: Left},
		"back and lost again":              {Connection: id(2), Ending: Lost},
		"left properly":                    {Connection: id(1), Ending: Left},
		"a late record of the same device": {Connection: id(3), Ending: EndedGone},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSending(t)
			s.owner(owner)
			s.expect(WillDead, 0, false)
		})
	}
}

// B10.1: the will's own write was of unknown outcome, its CONNECT refused; the device
// connected elsewhere without a will, left properly, and then the write landed.
func TestAWillThatLandedLateIsDead(t *testing.T) {
	s := newSending(t)
	s.owner(Owner{Connection: id(7), Incarnation: life1("b", 1), Ending: Left})
	s.expect(WillDead, 0, false)
}

// Reads of the owner record may be stale, not-found included: only the write over
// what was read decides.
func TestAStaleOwnerReadDecidesNothing(t *testing.T) {
	s := newSending(t)
	old := s.owner(Owner{Connection: id(1), Incarnation: life1("a", 1)})
	stale, _ := s.owners.Bucket.Get(t.Context(), "dev")
	s.owner(Owner{Connection: id(2), Incarnation: life1("b", 1)})
	reads := 0
	s.owners.get = func(r state.Record, err error) (state.Record, error) {
		switch reads++; reads {
		case 1:
			return stale, nil
		case 2:
			return state.Record{}, state.ErrNotFound
		}
		return r, err
	}
	s.expect(WillDead, 0, false)
	if reads < 3 || stale.Revision != old {
		t.Errorf("%d reads", reads)
	}
	// And the other way round: an old record of an earlier connection hides that
	// this one is the last.
	s = newSending(t)
	s.owner(Owner{Connection: id(9), Ending: Left})
	stale, _ = s.owners.Bucket.Get(t.Context(), "dev")
	s.owner(Owner{Connection: id(1), Incarnation: life1("a", 1)})
	first := true
	s.owners.get = func(r state.Record, err error) (state.Record, error) {
		if first {
			first = false
			return stale, nil
		}
		return r, err
	}
	s.expect(WillSent, 1, false)
}

// B10.5: the device's claim lands between the read and the touch.
func TestAClaimThatComesFirstMakesTheWillDead(t *testing.T) {
	s := newSending(t)
	s.owner(Owner{Connection: id(1), Incarnation: life1("a", 1)})
	s.owners.before = func() {
		s.owners.before = nil
		s.owner(Owner{Connection: id(2), Incarnation: life1("b", 1)})
	}
	s.expect(WillDead, 0, false)
}

// B10.3: a sender that died after any step. The next one sends the same row.
func TestASecondSenderContinuesWithTheSameRow(t *testing.T) {
	for _, dies := range []string{"after marking", "after touching", "after publishing"} {
		t.Run(dies, func(t *testing.T) {
			s := newSending(t)
			s.owner(Owner{Connection: id(1), Incarnation: life1("a", 1)})
			switch dies {
			case "after marking":
				s.owners.get = func(state.Record, error) (state.Record, error) {
					s.may = false
					return state.Record{}, errors.New("killed")
				}
			case "after touching":
				s.publish = errors.New("killed")
			case "after publishing":
				s.during = func() { s.may = false }
			}
			s.send()
			if !s.left() {
				t.Fatal("the record went before its will was known to be stored")
			}
			r, _ := s.wills.Bucket.Get(t.Context(), WillKey(id(1)))
			first, err := DecodeWill(r.Value)
			if err != nil || first.By != decider || first.Timestamp == 0 {
				t.Fatalf("marked %+v, %v", first, err)
			}
			s.owners.get, s.publish, s.during, s.may = nil, nil, nil, true
			s.will, s.revision = first, r.Revision
			got, err := s.sender.Send(t.Context(), first, r.Revision, EndedGone, life1("y", 3), func(time.Time) bool { return true })
			if err != nil || got != WillSent || s.left() {
				t.Fatalf("outcome %v, %v, left %v", got, err, s.left())
			}
			for _, w := range s.sent {
				if w.Timestamp != first.Timestamp || w.RowID() != first.RowID() || w.MessageID() != first.MessageID() {
					t.Errorf("two rows: %+v and %+v", w, first)
				}
			}
			if len(s.sent) == 0 {
				t.Error("never sent")
			}
		})
	}
}

// B10.4: the answer to the mark comes after the sender's fence. It landed, and means
// nothing any more.
func TestAnAnswerAfterTheFenceSendsNothing(t *testing.T) {
	s := newSending(t)
	s.owner(Owner{Connection: id(1), Incarnation: life1("a", 1)})
	s.wills.wrote = func(revision uint64, err error) (uint64, error) { s.may = false; return revision, err }
	before, _ := s.owners.Bucket.Get(t.Context(), "dev")
	s.expect(WillFenced, 0, true)
	if after, _ := s.owners.Bucket.Get(t.Context(), "dev"); after.Revision != before.Revision {
		t.Error("the owner record was touched after the fence")
	}

	s = newSending(t)
	s.owner(Owner{Connection: id(1), Incarnation: life1("a", 1)})
	s.owners.wrote = func(revision uint64, err error) (uint64, error) { s.may = false; return revision, err }
	s.expect(WillFenced, 0, true)

	s = newSending(t)
	s.may = false
	s.expect(WillFenced, 0, true)
}

func TestOfTwoSendersOneSends(t *testing.T) {
	s := newSending(t)
	s.owner(Owner{Connection: id(1), Incarnation: life1("a", 1)})
	s.expect(WillSent, 1, false)
	s.expect(WillElsewhere, 1, false)
}

func TestARefusedWillIsDroppedAndAFailedOneKept(t *testing.T) {
	s := newSending(t)
	s.publish = fmt.Errorf("not granted: %w", ErrWillRefused)
	s.expect(WillRefused, 0, false)

	s = newSending(t)
	s.publish = errors.New("historian unavailable")
	if _, err := s.send(); err == nil || !s.left() {
		t.Errorf("error %v, record left %v", err, s.left())
	}
	// A write of unknown outcome keeps it as well.
	s = newSending(t)
	s.owners.wrote = func(uint64, error) (uint64, error) { return 0, state.ErrUnknown }
	if _, err := s.send(); !errors.Is(err, state.ErrUnknown) || !s.left() || len(s.sent) != 0 {
		t.Errorf("error %v, record left %v, sent %d", err, s.left(), len(s.sent))
	}
}

func TestAnOwnerThatKeepsChangingEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSending(t)
		s.owner(Owner{Connection: id(1), Incarnation: life1("a", 1)})
		s.owners.before = func() { s.owner(Owner{Connection: id(1), Incarnation: life1("a", 1)}) }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.sender.Send(ctx, s.will, s.revision, EndedGone, decider, func(time.Time) bool { return true }); !errors.Is(err, context.DeadlineExceeded) || len(s.sent) != 0 {
			t.Errorf("%v, sent %d", err, len(s.sent))
		}
	})
}

// The historian is away when a will is due: it is sent once the historian is back, as
// the row that the first try would have made.
func TestAWillThatCouldNotBeSentIsSentLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSending(t)
		var tried []int64 // timestamps
		s.sender.Publish = func(_ context.Context, w *Will) error {
			if tried = append(tried, w.Timestamp); len(tried) < 5 {
				return errors.New("historian unavailable")
			}
			return nil
		}
		outcome, err := s.sender.SendAtLast(t.Context(), Due{s.will, s.revision, Lost}, decider, func(time.Time) bool { return true }, time.Second)
		if err != nil || outcome != WillSent || len(tried) != 5 || s.left() {
			t.Fatalf("outcome %v, %v after %d tries, record left %v; want it sent at the fifth", outcome, err, len(tried), s.left())
		}
		if slices.Max(tried) != slices.Min(tried) {
			t.Errorf("tried with timestamps %d: more than one row", tried)
		}
	})
}

// The store answers a write of the will's record as it pleases: nobody else sends the will
// while its replica lives, so it is sent for all that, once, and no record stays that
// would have it sent again.
func TestAWillIsSentWhateverTheStoreAnswersAboutItsRecord(t *testing.T) {
	lies := map[string]struct{ instead, landed error }{
		"refused for nothing":          {instead: state.ErrConflict},
		"not made, and unknown":        {instead: state.ErrUnknown},
		"the store is away":            {instead: state.ErrUnavailable},
		"landed, and unknown":          {landed: state.ErrUnknown},
		"landed, and refused as known": {landed: state.ErrConflict},
	}
	for lie, answer := range lies {
		for write, name := range []string{"the mark", "the deletion", "the mark again"} {
			t.Run(name+" "+lie, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newSending(t)
					s.owner(Owner{Connection: id(1), Incarnation: decider})
					writes := 0
					at := func() bool { return writes == write || name == "the mark again" && writes == 0 }
					s.wills.instead = func() error {
						if at() && answer.instead != nil {
							writes++
							return answer.instead
						}
						return nil
					}
					s.wills.wrote = func(revision uint64, err error) (uint64, error) {
						lied := at() && answer.landed != nil
						if writes++; lied {
							return 0, answer.landed
						}
						return revision, err
					}
					// What is read after a write may be from before it.
					lag := 2
					old, _ := s.wills.Bucket.Get(t.Context(), WillKey(id(1)))
					s.wills.get = func(r state.Record, err error) (state.Record, error) {
						if lag > 0 {
							lag--
							return old, nil
						}
						return r, err
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					outcome, err := s.sender.SendAtLast(ctx, Due{s.will, s.revision, Lost}, decider, func(time.Time) bool { return true }, time.Second)
					if err != nil || outcome != WillSent || len(s.sent) != 1 || s.left() {
						t.Errorf("outcome %v, error %v, sent %d times, record left %v; want it sent once and the record gone", outcome, err, len(s.sent), s.left())
					}
				})
			})
		}
	}
}
