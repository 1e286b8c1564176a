package server

import (
	"testing"
	"testing/synctest"

	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/mesh"
)

// Two replicas claim a client identifier at once and ask each other to let go: the claim
// that was made over the other's goes on, and the other gives up, in whatever order the
// claims land and the questions come.
func TestOfTwoClaimsTheNewerGoesOn(t *testing.T) {
	asking, other, third := cluster.NewID(), cluster.NewID(), cluster.NewID()
	over := func(connection cluster.ID, before ...cluster.ID) *cluster.Owner {
		o := &cluster.Owner{Connection: connection}
		for _, id := range before {
			o.Before = append(o.Before, cluster.Claim{Connection: id})
		}
		return o
	}
	for name, test := range map[string]struct {
		over   *cluster.Owner // what the claim here was made over
		before bool           // it had landed when the question came
		gives  bool
		answer mesh.Ended
	}{
		"made over the asking claim":                             {over: over(asking), before: true, answer: mesh.NotHeld},
		"made over one that was made over the asking claim":      {over: over(other, third, asking), before: true, answer: mesh.NotHeld},
		"made over another":                                      {over: over(other, third), before: true, gives: true, answer: mesh.GaveUpClaim},
		"the first there is":                                     {before: true, gives: true, answer: mesh.GaveUpClaim},
		"it lands later, over the asking claim":                  {over: over(asking), answer: mesh.NotHeld},
		"it lands later, over one made over the asking claim":    {over: over(other, asking), answer: mesh.NotHeld},
		"it has landed before the asking claim, its answer late": {over: over(other), gives: true, answer: mesh.NotHeld},
	} {
		t.Run(name, func(t *testing.T) {
			press := &client{id: "press"}
			s := &Server{clients: map[string]*client{"press": press}}
			c := &connection{server: s, client: press, lock: &press.lock, held: &holding{}}
			press.claimant = c
			if test.before {
				c.claimed(test.over)
			}
			var answers []mesh.Released
			s.Release(mesh.Peer{}, mesh.Release{ClientID: "press", ConnectionID: asking.String()}, func(r mesh.Released) { answers = append(answers, r) })
			if len(answers) != 1 || answers[0].Ended != test.answer {
				t.Fatalf("answered %+v, want %v at once", answers, test.answer)
			}
			if !test.before {
				c.claimed(test.over)
			}
			if got := c.gaveUp.Load(); got != test.gives {
				t.Errorf("gave up: %v, want %v", got, test.gives)
			}
		})
	}
}

// A question that was long on its way comes when the claim it is for has been overtaken,
// and the connection that overtook it serves.
func TestAnOvertakenClaimClosesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asking := cluster.NewID()
		press := &client{id: "press"}
		s := &Server{clients: map[string]*client{"press": press}}
		c := &connection{server: s, client: press, lock: &press.lock, held: &holding{}, settled: make(chan struct{})}
		press.conn, press.last = c, c
		c.claimed(&cluster.Owner{Connection: asking})
		answered := false
		s.Release(mesh.Peer{}, mesh.Release{ClientID: "press", ConnectionID: asking.String()}, func(r mesh.Released) { answered = r.Ended == mesh.NotHeld })
		synctest.Wait()
		press.lock.Lock()
		defer press.lock.Unlock()
		if c.ended || !answered {
			t.Errorf("closed: %v, answered that nobody holds it for the older claim: %v; want false and true", c.ended, answered)
		}
	})
}
