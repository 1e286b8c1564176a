package mesh

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// two makes two replicas on a network in memory, linked. Inside a bubble.
func two(t *testing.T, edit func(*Options)) (n *network, a, b *replica, stop func()) {
	t.Helper()
	deployment()
	n = newNetwork()
	with := func(o *Options) {
		o.Dial = n.dial
		if edit != nil {
			edit(o)
		}
	}
	a, b = start(t, "a", n.listen("a"), with), start(t, "b", n.listen("b"), with)
	a.SetPeer(Peer{Replica: "b", Incarnation: 20, Address: "b"})
	b.SetPeer(Peer{Replica: "a", Incarnation: 10, Address: "a"})
	a.Begin(10)
	b.Begin(20)
	a.waitLinked(t, 1)
	b.waitLinked(t, 1)
	return n, a, b, func() {
		a.Close()
		b.Close()
		n.cut()
	}
}

func numbers(from, to int) []string {
	var list []string
	for i := from; i <= to; i++ {
		list = append(list, fmt.Sprint(i))
	}
	return list
}

func isDone(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestValuesArriveInOrderBothWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b, stop := two(t, nil)
		defer stop()
		<-a.send("b", numbers(1, 2000)...)
		<-b.send("a", numbers(1, 700)...)
		if got := b.got("a/10"); !slices.Equal(got, numbers(1, 2000)) {
			t.Errorf("b got %d values", len(got))
		}
		if got := a.got("b/20"); !slices.Equal(got, numbers(1, 700)) {
			t.Errorf("a got %d values", len(got))
		}
	})
}

func TestDoneIsTheHandlersReturnNotReceipt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b, stop := two(t, nil)
		defer stop()
		b.hold = make(chan struct{})
		done := a.send("b", "1")
		synctest.Wait()
		if isDone(done) {
			t.Fatal("done before the handler has returned")
		}
		close(b.hold)
		<-done
	})
}

func TestDoneDoesNotWaitForUnknownOrUnlinkedPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, b, stop := two(t, nil)
		defer stop()
		if !isDone(a.send("nobody", "1")) {
			t.Error("waits for an unknown peer")
		}
		n.set(true, false)
		n.cut()
		a.waitLinked(t, 0)
		if !isDone(a.send("b", "2")) {
			t.Error("waits for a peer that is not linked")
		}
		n.set(false, false)
		b.wait(t, "value 2 after the cut", func() bool { return slices.Equal(b.values["a/10"], []string{"2"}) })
	})
}

func TestAResetThatMendsAtOnceIsStillWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, b, stop := two(t, nil)
		defer stop()
		n.freeze()
		done := a.send("b", "1")
		synctest.Wait()
		n.cut()
		<-done
		if got := b.got("a/10"); !slices.Equal(got, []string{"1"}) {
			t.Errorf("done with b having %q", got)
		}
	})
}

func TestAKilledPeerIsSeenWithinASecond(t *testing.T) {
	for _, seer := range []string{"a", "b"} {
		t.Run(seer, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, a, b, stop := two(t, nil)
				defer stop()
				r, other := a, "b"
				if seer == "b" {
					r, other = b, "a"
				}
				n.freeze()
				done := r.send(other, "1")
				synctest.Wait()
				began := time.Now()
				n.set(true, false)
				n.cut()
				<-done
				if took := time.Since(began); took > time.Second {
					t.Errorf("the outcome went on after %v", took)
				}
				r.waitLinked(t, 0)
			})
		})
	}
}

func TestASilentPeerIsSeenWithinThreeSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, b, stop := two(t, nil)
		defer stop()
		time.Sleep(10 * time.Second)
		if len(a.Linked()) != 1 || a.links.Load() != 1 {
			t.Fatalf("an idle link did not stay: %d changes", a.links.Load())
		}
		n.set(false, true) // later connections are made, and silent as well
		n.freeze()
		began := time.Now()
		done := a.send("b", "1")
		<-done
		if took := time.Since(began); took > 3200*time.Millisecond {
			t.Errorf("the outcome went on after %v", took)
		}
		a.waitLinked(t, 0)
		b.waitLinked(t, 0)
		n.set(false, false)
		n.cut()
		b.wait(t, "value 1 once", func() bool { return slices.Equal(b.values["a/10"], []string{"1"}) })
	})
}

func TestAPeerThatDoesNotAcknowledgeIsNotLinkedAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b, stop := two(t, nil)
		defer stop()
		b.hold = make(chan struct{})
		began := time.Now()
		<-a.send("b", "1")
		if took := time.Since(began); took < 2*time.Second || took > 3200*time.Millisecond {
			t.Errorf("the outcome went on after %v", took)
		}
		a.waitLinked(t, 0)
		b.mu.Lock()
		close(b.hold)
		b.hold = nil
		b.mu.Unlock()
		a.waitLinked(t, 1)
		<-a.send("b", "2")
		if got := b.got("a/10"); !slices.Equal(got, []string{"1", "2"}) {
			t.Errorf("b got %q", got)
		}
	})
}

func TestOverflowLosesTheOldestAndCountsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counted := 0
		n, a, b, stop := two(t, func(o *Options) {
			o.RingBytes = 20 << 10
			if o.Replica == "a" {
				o.Lost = func(peer string, values int) { counted += values }
			}
		})
		defer stop()
		n.set(true, false)
		n.cut()
		a.waitLinked(t, 0)
		for i := 1; i <= 1000; i++ {
			a.send("b", fmt.Sprint(i))
		}
		n.set(false, false)
		b.wait(t, "value 1000", func() bool { l := b.values["a/10"]; return len(l) > 0 && l[len(l)-1] == "1000" })
		got := b.got("a/10")
		if first := 1000 - len(got) + 1; !slices.Equal(got, numbers(first, 1000)) {
			t.Errorf("b did not get the newest %d in order", len(got))
		}
		if counted+len(got) != 1000 || len(got) < 50 {
			t.Errorf("%d counted as lost, %d arrived, of 1000", counted, len(got))
		}
		a.waitLinked(t, 1)
		if s := a.Status(); s.Peers[0].Lost != uint64(counted) || s.LinksUp != 1 || s.LinksExpected != 1 {
			t.Errorf("status %+v", s)
		}
	})
}

func TestALifesFramesNeverReachAnother(t *testing.T) {
	cases := map[string]func(n *network, a, b *replica){
		"the peer's entry shows a newer life": func(n *network, a, b *replica) {
			a.SetPeer(Peer{Replica: "b", Incarnation: 21, Address: "b"})
			b.Begin(21)
		},
		"the peer's hello shows a newer life": func(n *network, a, b *replica) { b.Begin(21) },
		"this replica's life is a new one":    func(n *network, a, b *replica) { a.Begin(11) },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, a, b, stop := two(t, func(o *Options) { o.Lost = func(string, int) { t.Error("counted as lost") } })
				defer stop()
				n.set(true, false)
				n.cut()
				a.waitLinked(t, 0)
				a.send("b", "old")
				b.send("a", "old")
				change(n, a, b)
				n.set(false, false)
				a.waitLinked(t, 1)
				b.waitLinked(t, 1)
				<-a.send("b", "new")
				<-b.send("a", "new")
				for _, r := range []*replica{a, b} {
					r.mu.Lock()
					for from, got := range r.values {
						if !slices.Equal(got, []string{"new"}) {
							t.Errorf("%s got %q from %s", r.id, got, from)
						}
					}
					r.mu.Unlock()
				}
			})
		})
	}
}

func TestAnEndedLifeIsDroppedUncountedAndNeverLinksAgain(t *testing.T) {
	for _, state := range []State{Fenced, Stopped, Gone} {
		synctest.Test(t, func(t *testing.T) {
			_, a, b, stop := two(t, func(o *Options) { o.Lost = func(string, int) { t.Error("counted as lost") } })
			defer stop()
			b.hold = make(chan struct{})
			done := a.send("b", "1")
			var outcome ShareOutcome
			if err := a.SendShare("b", Share{Value: sample("s"), Key: "g/#", Session: "c"}, func() {}, func(o ShareOutcome) { outcome = o }); err != nil {
				t.Fatal(err)
			}
			a.SetPeer(Peer{Replica: "b", Incarnation: 20, Address: "b", State: state})
			<-done
			if outcome != ShareInDoubt {
				t.Errorf("the share of a life that ended: outcome %d", outcome)
			}
			close(b.hold)
			if got := a.Status().Peers[0]; got.BufferedFrames != 0 || got.Linked {
				t.Errorf("kept for an ended life: %+v", got)
			}
			a.SetPeer(Peer{Replica: "b", Incarnation: 20, Address: "b"})
			time.Sleep(10 * time.Second)
			if len(a.Linked()) != 0 {
				t.Error("an ended life is linked again")
			}
			if _, err := a.Release(context.Background(), "b", 20, Release{ClientID: "c"}); !errors.Is(err, ErrEnded) {
				t.Errorf("release at an ended life: %v", err)
			}
		})
	}
}

func TestNothingLeavesAReplicaThatMayNotAct(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b, stop := two(t, nil)
		defer stop()
		a.fenced.Store(true)
		<-a.send("b", "1")
		a.waitLinked(t, 0)
		time.Sleep(10 * time.Second)
		if got := b.got("a/10"); len(got) != 0 || len(b.Linked()) != 0 {
			t.Errorf("b got %q and has %d links", got, len(b.Linked()))
		}
		a.End()
		a.fenced.Store(false)
		a.Begin(11)
		a.waitLinked(t, 1)
		<-a.send("b", "2")
		if got := b.got("a/11"); !slices.Equal(got, []string{"2"}) {
			t.Errorf("b got %q", got)
		}
	})
}

func TestReleaseWaitsForTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, b, stop := two(t, nil)
		defer stop()
		type result struct {
			r   Released
			err error
		}
		results := make(chan result, 1)
		ask := func(ctx context.Context) {
			r, err := b.Release(ctx, "a", 10, Release{ClientID: "dev", ConnectionID: "c2"})
			results <- result{r, err}
		}
		go ask(context.Background())
		a.wait(t, "asked", func() bool { return len(a.releases) == 1 })
		if q := a.releases[0].Release; q != (Release{"dev", "c2"}) {
			t.Fatalf("asked %+v", q)
		}
		n.cut() // and back: the answer comes all the same
		b.waitLinked(t, 1)
		want := Released{Ended: ClosedByTakeover, ConnectionID: "c1"}
		a.releases[0].answer(want)
		a.releases[0].answer(Released{})
		if got := <-results; got.err != nil || got.r != want {
			t.Fatalf("answer %+v", got)
		}

		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		go ask(ctx)
		if got := <-results; !errors.Is(got.err, context.DeadlineExceeded) {
			t.Fatalf("unsettled: %+v", got)
		}
		go ask(context.Background())
		a.wait(t, "asked again", func() bool { return len(a.releases) == 3 })
		n.set(true, false)
		n.cut()
		if got := <-results; !errors.Is(got.err, ErrNotLinked) {
			t.Fatalf("link lost: %+v", got)
		}
		if _, err := b.Release(context.Background(), "a", 9, Release{}); !errors.Is(err, ErrEnded) {
			t.Errorf("an earlier life: %v", err)
		}
	})
}

func TestAShareIsSettledOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, b, stop := two(t, nil)
		defer stop()
		sent, settled := make(chan struct{}, 9), make(chan ShareOutcome, 9)
		share := func() error {
			return a.SendShare("b", Share{Value: sample("s"), Flags: 3, Key: "g/x/#", Session: "dev"}, func() { sent <- struct{}{} }, func(o ShareOutcome) { settled <- o })
		}
		if err := share(); err != nil {
			t.Fatal(err)
		}
		<-sent
		s := b.shares[0]
		if s.Key != "g/x/#" || s.Session != "dev" || s.Flags != 3 || string(s.Value.Payload) != "s" {
			t.Fatalf("share %+v", s)
		}
		n.set(true, false)
		n.cut()
		a.waitLinked(t, 0)
		if err := share(); !errors.Is(err, ErrNotLinked) {
			t.Errorf("share to a peer that is not linked: %v", err)
		}
		s.answer(ShareTaken) // while there is no link
		s.answer(ShareReturned)
		n.set(false, false)
		if o := <-settled; o != ShareTaken {
			t.Errorf("outcome %d", o)
		}
		a.waitLinked(t, 1)
		<-a.send("b", "after")
		if len(settled) != 0 || len(sent) != 0 || a.Status().Peers[0].SharesHeld != 0 {
			t.Error("settled twice, or still held")
		}
	})
}

func TestAShareThatNeverLeftIsGivenBackWhenTheLinkIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, b, stop := two(t, nil)
		defer stop()
		n.set(true, false)
		n.cut()
		synctest.Wait() // mending: still linked, nothing can leave
		var outcome ShareOutcome
		err := b.SendShare("a", Share{Value: sample("s")}, func() {}, func(o ShareOutcome) { outcome = o })
		if err != nil {
			t.Fatal(err)
		}
		b.waitLinked(t, 0)
		synctest.Wait()
		if outcome != ShareReturned {
			t.Errorf("outcome %d", outcome)
		}
		n.set(false, false)
		b.waitLinked(t, 1)
		<-b.send("a", "v")
		if len(a.shares) != 0 {
			t.Error("the share was sent all the same")
		}
	})
}

func TestReportsAndAnnouncementsReachAllPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, b, stop := two(t, nil)
		defer stop()
		a.ReportApplied(Applied{Routes: 7, Sessions: 9})
		b.wait(t, "applied 7 and 9", func() bool { return slices.Contains(b.applied, Applied{7, 9}) })
		n.set(true, false)
		n.cut()
		b.waitLinked(t, 0)
		a.ReportApplied(Applied{Routes: 8, Sessions: 9})
		a.ReportApplied(Applied{Routes: 9, Sessions: 9})
		a.AnnounceReturning("lost")
		n.set(false, false)
		b.wait(t, "applied 9 and 9 after the cut", func() bool { return slices.Contains(b.applied, Applied{9, 9}) })
		a.waitLinked(t, 1)
		a.AnnounceReturning("dev")
		b.wait(t, "told of dev alone", func() bool { return slices.Equal(b.returning, []string{"dev"}) })
		if slices.Contains(b.applied, Applied{8, 9}) {
			t.Error("a report that was outdated when the link came back was sent")
		}
	})
}

func TestReleasesWithoutACommonVersionDoNotLinkAndSaySo(t *testing.T) {
	deployment()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		versions := func(min, max uint64) func(*Options) {
			return func(o *Options) { o.Dial, o.Versions = n.dial, Versions{min, max} }
		}
		a, b, c := start(t, "a", n.listen("a"), versions(1, 2)), start(t, "b", n.listen("b"), versions(3, 4)), start(t, "c", n.listen("c"), versions(2, 3))
		for i, r := range []*replica{a, b, c} {
			defer r.Close()
			for j, p := range []string{"a", "b", "c"} {
				r.SetPeer(Peer{Replica: p, Incarnation: uint64(j + 1), Address: p})
			}
			r.Begin(uint64(i + 1))
		}
		c.waitLinked(t, 2)
		a.waitLinked(t, 1)
		time.Sleep(30 * time.Second)
		if len(a.Linked()) != 1 || a.Linked()[0].Replica != "c" || a.Status().Peers[1].Version != 2 || b.Status().Peers[1].Version != 3 {
			t.Errorf("a is linked with %v", a.Linked())
		}
		for _, r := range []*replica{a, b} {
			if want := "no mesh protocol version in common"; !strings.Contains(r.logs.String(), want) {
				t.Errorf("%s does not log %q:\n%s", r.id, want, r.logs)
			}
			for _, p := range r.Status().Peers {
				if p.Replica != "c" && !strings.Contains(p.Reason, "speaks 3 to 4") {
					t.Errorf("%s's status of %s: %q", r.id, p.Replica, p.Reason)
				}
			}
			if said := strings.Count(r.logs.String(), "in common"); said > 2 {
				t.Errorf("%s logged it %d times in 30 s", r.id, said)
			}
		}
		n.cut()
	})
}

func TestCloseDeliversTheAnswersBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b, stop := two(t, nil)
		defer stop()
		done := make(chan error, 1)
		go func() {
			_, err := b.Release(context.Background(), "a", 10, Release{ClientID: "dev"})
			done <- err
		}()
		a.wait(t, "asked", func() bool { return len(a.releases) == 1 })
		a.releases[0].answer(Released{Ended: ClosedByTakeover})
		a.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
		b.waitLinked(t, 0)
		if !strings.Contains(b.logs.String(), "this replica stops") {
			t.Errorf("b does not say why the link ended:\n%s", b.logs)
		}
	})
}

func TestANewLinkWaitsUntilTheOldOnesFramesAreHandled(t *testing.T) {
	for _, holder := range []string{"a", "b"} { // the end that dials, and the one that accepts
		synctest.Test(t, func(t *testing.T) {
			n, a, b, stop := two(t, nil)
			defer stop()
			from, to, key := b, a, "b/20"
			if holder == "b" {
				from, to, key = a, b, "a/10"
			}
			to.hold = make(chan struct{})
			from.send(to.id, "1")
			synctest.Wait()
			n.cut() // the frame is being handled, and nothing says so yet
			time.Sleep(1500 * time.Millisecond)
			if from.Status().LinksUp+to.Status().LinksUp != 0 {
				t.Error("a new link while a frame of the old one is being handled")
			}
			to.mu.Lock()
			close(to.hold)
			to.hold = nil
			to.mu.Unlock()
			from.waitLinked(t, 1)
			<-from.send(to.id, "2")
			if got := to.got(key); !slices.Equal(got, []string{"1", "2"}) {
				t.Errorf("%s got %q", to.id, got)
			}
		})
	}
}

func TestMoreThanMayBeInFlightGoesOnWithEachAcknowledgment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b, stop := two(t, nil)
		defer stop()
		large := strings.Repeat("x", 256<<10)
		var payloads []string
		for range 40 {
			payloads = append(payloads, large)
		}
		began := time.Now()
		<-a.send("b", payloads...)
		if waited := time.Since(began); waited != 0 {
			t.Errorf("10 MiB waited %v for something that was not an acknowledgment", waited)
		}
		if got := len(b.got("a/10")); got != 40 {
			t.Errorf("%d of 40 values", got)
		}
	})
}

func TestKeptFramesHoldNoMoreThanIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, _, stop := two(t, nil)
		defer stop()
		n.freeze()
		a.send("b", numbers(1, 500)...) // one buffer for all, and linked
		n.set(true, false)
		n.cut()
		a.waitLinked(t, 0)
		a.send("b", numbers(501, 1000)...) // not linked
		p := a.peer("b")
		p.mu.Lock()
		defer p.mu.Unlock()
		held := 0
		for _, q := range []*fifo[entry]{&p.pair.out.kept, &p.pair.out.fresh} {
			for i := range q.len() {
				e := q.at(i)
				if e.part || cap(e.frame) > len(e.frame)+64 {
					t.Fatalf("frame %d of %d bytes holds %d", e.number, len(e.frame), cap(e.frame))
				}
				held++
			}
		}
		if held != 1000 {
			t.Errorf("%d frames kept, want 1000", held)
		}
	})
}

func TestNewSaysWhatIsMissing(t *testing.T) {
	full := Options{Replica: "a", Listener: newNetwork().listen("a"), Identity: identity(deployment()), MayAct: func() bool { return true }, Handler: recorder{}}
	for want, edit := range map[string]func(*Options){
		"replica id":   func(o *Options) { o.Replica = "" },
		"Listener":     func(o *Options) { o.Listener = nil },
		"MayAct":       func(o *Options) { o.MayAct = nil },
		"Identity":     func(o *Options) { o.Identity = nil },
		"certificate":  func(o *Options) { o.Identity = func() Identity { return Identity{} } },
		"with its key": func(o *Options) { o.Identity = identity(tls.Certificate{Certificate: deployment().Certificate}) },
		"versions 2":   func(o *Options) { o.Versions = Versions{2, 1} },
	} {
		o := full
		edit(&o)
		if m, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("without %s: %v, %v", want, m, err)
		}
	}
}

func TestLinksAreExpectedToReplicasThatServeWhileThisOneDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, _, stop := two(t, nil)
		defer stop()
		a.waitLinked(t, 1)
		links := func(step string, up, expected int) {
			t.Helper()
			if s := a.Status(); s.LinksUp != up || s.LinksExpected != expected {
				t.Errorf("%s: %d of %d links up, want %d of %d", step, s.LinksUp, s.LinksExpected, up, expected)
			}
		}
		links("linked", 1, 1)
		n.set(true, false)
		n.cut()
		time.Sleep(time.Second)
		links("cut", 0, 1)
		b := a.Status().Peers[0].Peer
		for _, state := range []State{Fenced, Stopped, Gone} {
			b.State = state
			a.SetPeer(b)
			links(fmt.Sprint("the other has ended: ", state), 0, 0)
			b.Incarnation, b.State = b.Incarnation+1, Serving
			a.SetPeer(b)
			links("the other lives anew", 0, 1)
		}
		a.End()
		links("this one has ended", 0, 0)
	})
}
