package access

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"maestrohub.io/uns/broker/state"
)

// A read may show a client as it was before what the watch has told, or this replica has
// written: it brings back neither a right nor a secret nor a client.
func TestAReadOfBeforeBringsNothingBack(t *testing.T) {
	narrow := func(t *testing.T, a *Access) error {
		return a.Seed(t.Context(), []byte("clients: [{id: c, secret: 'correct horse', workspace: w, publish: [b]}]"))
	}
	for change, do := range map[string]func(t *testing.T, a *Access) error{
		"narrowed": narrow,
		"disabled": func(t *testing.T, a *Access) error { return a.Disable(t.Context(), "c") },
		"rotated":  func(t *testing.T, a *Access) error { _, err := a.Rotate(t.Context(), "c"); return err },
		"deleted":  func(t *testing.T, a *Access) error { return a.Delete(t.Context(), "c") },
	} {
		for _, here := range []bool{true, false} {
			t.Run(change, func(t *testing.T) {
				f := &faults{Store: openStore(t)}
				a, other := openOn(t, f, Options{}), openOn(t, f.Store, Options{})
				fatal(t, a.Seed(t.Context(), []byte("clients: [{id: c, secret: 'correct horse', workspace: w, publish: [a]}]")))
				g := signIn(t, a, "c", "correct horse")
				before, err := a.bucket.Get(t.Context(), clientKeys+"c")
				fatal(t, err)
				by := a
				if !here {
					by = other
				}
				changes := a.OnChange(t.Context())
				fatal(t, do(t, by))
				for told := false; !told; {
					<-changes
					k, _ := a.lastKnown(t.Context(), "c")
					told = k == nil || k.revision > before.Revision
				}
				f.got = func(state.Record, error) (state.Record, error) { return before, nil }
				renewed, err := recheck(a, g)
				if err == nil && (change != "narrowed" || renewed.MayPublish("a") || !renewed.MayPublish("b")) || err != nil && !errors.Is(err, ErrRefused) {
					t.Errorf("%s here %v: renewed to %+v, %v", change, here, renewed, err)
				}
				if change != "narrowed" {
					refused(t, a, "c", "correct horse", change)
				}
			})
		}
	}
}

// What is written down of deletions is forgotten as the store forgets them.
func TestNothingIsKeptOfAClientDeletedLongAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := openAccess(t, Options{})
		for i := range 50 {
			id := fmt.Sprint("c", i)
			add(t, a, Client{ID: id, Workspace: "w"})
			fatal(t, a.Delete(t.Context(), id))
		}
		synctest.Wait() // the watch has told as well
		time.Sleep(state.TombstoneAge)
		add(t, a, Client{ID: "last", Workspace: "w"})
		fatal(t, a.Delete(t.Context(), "last"))
		synctest.Wait()
		a.mu.Lock()
		defer a.mu.Unlock()
		if len(a.gone) != 1 || len(a.clients) != 0 {
			t.Errorf("%d deletions and %d clients are kept, want the last deletion", len(a.gone), len(a.clients))
		}
	})
}

// A bucket that was lost and made again counts its revisions anew: what it holds then
// counts, and nothing of before.
func TestABucketThatCountsAnewIsBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := openAccess(t, Options{})
		add(t, a, Client{ID: "c", Workspace: "w"})
		old, err := a.bucket.Get(t.Context(), clientKeys+"c")
		fatal(t, err)
		fatal(t, a.Disable(t.Context(), "c"))
		synctest.Wait() // the watch has told
		missing := a.beginAgain()
		a.learn("c", old)
		if k, _ := a.lastKnown(t.Context(), "c"); k == nil || k.client.Disabled || !missing["c"] {
			t.Errorf("known as %+v, want as the bucket repeats it", k)
		}
		a.endAgain(missing)
		if k, _ := a.lastKnown(t.Context(), "c"); k == nil {
			t.Error("dropped, though the bucket has repeated it")
		}
		missing = a.beginAgain()
		a.endAgain(missing)
		if k, _ := a.lastKnown(t.Context(), "c"); k != nil {
			t.Errorf("known as %+v, though the bucket has it no more", k)
		}
	})
}

// Grants hold for wsRevocationSLA from when the store was asked: what it took to answer is
// not on top.
func TestAnAnswerThatWasSlowMakesGrantsNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faults{Store: openStore(t)}
		a := openOn(t, f, Options{})
		secret := add(t, a, Client{ID: "c", Workspace: "w"})
		f.get = func() error { time.Sleep(6 * time.Second); return nil }
		asked := time.Now()
		g := signIn(t, a, "c", secret)
		if d := g.Deadline().Sub(asked); d != time.Minute {
			t.Errorf("signed in until %v after the store was asked, want 1 min", d)
		}
		asked = time.Now()
		g, err := recheck(a, g)
		fatal(t, err)
		if d := g.Deadline().Sub(asked); d != time.Minute {
			t.Errorf("renewed until %v after the store was asked, want 1 min", d)
		}
		a.Close()
	})
}
