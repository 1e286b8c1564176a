package server

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/mesh"
	"maestrohub.io/uns/broker/state"
)

// told is a watch that says what it is given.
type told chan state.Update

func (w told) Updates() <-chan state.Update { return w }
func (w told) Stop()                        {}

func (w told) Mark(context.Context) (uint64, error) { return 0, nil }

// TestAListCountsAsAppliedOnlyWhenItIsWhole: a list comes in the order of keys, so the
// highest revision, which proves everything before it, may come first of all.
func TestAListCountsAsAppliedOnlyWhenItIsWhole(t *testing.T) {
	record := func(revision uint64) state.Update {
		return state.Update{Record: state.Record{Key: "a", Revision: revision}}
	}
	w := make(told, 16)
	for _, u := range []state.Update{record(9), record(4), {Ready: true}, record(10), {Lost: true}, record(12), record(7), {Ready: true}, record(13)} {
		w <- u
	}
	close(w)
	var said []any
	new(shared).consume(w, make(chan struct{}, 1), func(u state.Update) { said = append(said, "apply") }, func(map[string]bool) { said = append(said, "whole") },
		func(revision uint64) { said = append(said, revision) }, func() { said = append(said, "lost") })
	want := []any{"apply", "apply", "whole", uint64(9), "apply", uint64(10), "lost", "apply", "apply", "whole", uint64(12), "apply", uint64(13)}
	if !slices.Equal(said, want) {
		t.Errorf("consumed as %v, want %v", said, want)
	}
}

// A member entry is written under the lock of membership, which the index asks under its
// own: whichever of the two waits for the other, the replica stands still for ever.
func TestHowFarTheIndexIsIsToldWhileTheIndexIsBusy(t *testing.T) {
	sh := &shared{}
	s := &Server{shared: sh}
	sh.applied.Store(&mesh.Applied{Sessions: 7, Routes: 9})
	sh.mu.Lock()
	defer sh.mu.Unlock()
	told := make(chan cluster.Applied, 1)
	go func() { told <- s.AppliedRevisions() }()
	select {
	case a := <-told:
		if a != (cluster.Applied{Sessions: 7, Routes: 9}) {
			t.Errorf("told %+v", a)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for the lock of the index")
	}
}

// endless is a chain whose values never have their outcome.
type endless struct{ Ingest }

func (endless) Settled(string) <-chan struct{} { return make(chan struct{}) }

// Else the others would wait out every SUBACK for as long as this replica's stores do
// not answer.
func TestHowFarTheIndexIsIsReportedInTimeHoweverManyWorkspacesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{ingest: endless{}, workspaces: map[string]*workspace{"one": nil, "two": nil, "three": nil}}
		sh := &shared{server: s}
		defer sh.owed.enter()()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		sh.settled(ctx)
		if waited := time.Since(began); waited != reportsWait {
			t.Errorf("waited %v, want %v", waited, reportsWait)
		}
	})
}
