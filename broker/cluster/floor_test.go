package cluster

import (
	"context"
	"errors"
	"testing"

	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/memory"
)

func reads(oldest, newest Format, phase Phase) Entry {
	return Entry{Oldest: oldest, Newest: newest, Phase: phase}
}

func TestTheFloorIsRaisedToWhatEveryMemberReads(t *testing.T) {
	for _, c := range []struct {
		name    string
		floor   Format
		members []Entry
		want    Format
	}{
		{"nobody", 1, nil, 1},
		{"all new", 1, []Entry{reads(1, 2, Serving), reads(1, 2, Serving)}, 2},
		{"one old", 1, []Entry{reads(1, 2, Serving), reads(1, 1, Serving)}, 1},
		{"the old one is fenced and may come back", 1, []Entry{reads(1, 2, Serving), reads(1, 1, Fenced)}, 1},
		{"the old one only starts", 1, []Entry{reads(1, 2, Serving), reads(1, 1, Starting)}, 1},
		{"never lowered", 3, []Entry{reads(1, 2, Serving)}, 3},
		{"several at once", 1, []Entry{reads(1, 4, Serving), reads(1, 3, Serving)}, 3},
	} {
		if got := (Floor{Format: c.floor}).raised(c.members); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func floors(t *testing.T) state.Bucket {
	store, err := memory.Open(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	b, err := store.Bucket(t.Context(), state.ClusterFloor)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func standing(t *testing.T, b state.Bucket) (Floor, uint64) {
	t.Helper()
	r, err := b.Get(t.Context(), FloorKey)
	if err != nil {
		t.Fatal(err)
	}
	f, err := DecodeFloor(r.Value)
	if err != nil {
		t.Fatal(err)
	}
	return f, r.Revision
}

func TestJoiningTouchesTheFloor(t *testing.T) {
	b := floors(t)
	if f, err := joinFloor(t.Context(), b, life1("a", 1), 1, 2); f != 1 || err != nil {
		t.Fatalf("the first: %d, %v", f, err)
	}
	_, before := standing(t, b)
	if f, err := joinFloor(t.Context(), b, life1("b", 1), 1, 2); f != 1 || err != nil {
		t.Fatalf("the second: %d, %v", f, err)
	}
	if f, revision := standing(t, b); f.Touched != life1("b", 1) || revision == before {
		t.Fatalf("not touched: %+v", f)
	}
}

func TestOutsideItsFormatsNobodyJoins(t *testing.T) {
	b := floors(t)
	b.Create(t.Context(), FloorKey, Floor{Format: 3}.Encode())
	for _, c := range []struct{ oldest, newest Format }{{1, 2}, {4, 5}} {
		if f, err := joinFloor(t.Context(), b, life1("a", 1), c.oldest, c.newest); !errors.Is(err, ErrBelowFloor) || f != 3 {
			t.Errorf("formats %d to %d under floor 3: %d, %v", c.oldest, c.newest, f, err)
		}
	}
	if f, _ := standing(t, b); !f.Touched.ID.IsZero() {
		t.Error("touched by one that may not join")
	}
}

// B14: leader L reads the floor, sees no old member and raises; old O writes its entry
// and touches the floor. In whatever order the steps interleave, either L sees O or one
// of the two writes fails.
func TestAnOldReplicaJoiningAndARaiseNeverBothSucceed(t *testing.T) {
	// L: 0 read, 1 check members, 2 write. O: 0 entry, 1 read, 2 touch.
	var run func(order []int)
	run = func(order []int) {
		counts := [2]int{}
		for _, who := range order {
			counts[who]++
		}
		if len(order) < 6 {
			for who := range 2 {
				if counts[who] < 3 {
					run(append(order[:len(order):len(order)], who))
				}
			}
			return
		}
		b := floors(t)
		b.Create(t.Context(), FloorKey, Floor{Format: 1}.Encode())
		members := []Entry{reads(1, 2, Serving)}
		var leaderRead, oldRead uint64
		var next Format
		var raised, joined bool
		step := [2]int{}
		for _, who := range order {
			switch {
			case who == 0 && step[0] == 0:
				_, leaderRead = standing(t, b)
			case who == 0 && step[0] == 1:
				next = Floor{Format: 1}.raised(members)
			case who == 0 && next > 1:
				_, err := b.Update(t.Context(), FloorKey, Floor{Format: next}.Encode(), leaderRead)
				raised = err == nil
			case who == 1 && step[1] == 0:
				members = append(members, reads(1, 1, Starting))
			case who == 1 && step[1] == 1:
				_, oldRead = standing(t, b)
			case who == 1:
				f, _ := standing(t, b)
				if touched, err := f.touch(life1("o", 1), 1, 1); err == nil {
					_, err = b.Update(t.Context(), FloorKey, touched.Encode(), oldRead)
					joined = err == nil
				}
			}
			step[who]++
		}
		if raised && joined {
			t.Errorf("order %v: the floor was raised over a replica that joined", order)
		}
	}
	run(nil)
}

func TestATouchOfUnknownOutcomeIsLookedUp(t *testing.T) {
	inner := floors(t)
	b := &lying{Bucket: inner}
	lies := 1
	b.wrote = func(revision uint64, err error) (uint64, error) {
		if lies > 0 {
			lies--
			return 0, state.ErrUnknown // it landed
		}
		return revision, err
	}
	if f, err := joinFloor(t.Context(), b, life1("a", 1), 1, 1); f != 1 || err != nil {
		t.Fatalf("%d, %v", f, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := joinFloor(ctx, b, life1("b", 1), 1, 1); err == nil {
		t.Fatal("joined without a store")
	}
}
