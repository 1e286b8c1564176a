package server

import (
	"testing"
	"testing/synctest"
	"time"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/broker/cluster"
)

// Whether a session had expired when its device came back is judged by the clock of the
// replica it came back to, from when that saw the connection end: the clock of the replica
// that wrote the end may be wrong by more than the expiry, either way.
func TestExpiryIsJudgedByOneClockAndByWhenTheConnectArrived(t *testing.T) {
	const expiry = 60
	for skew, clock := range map[string]time.Duration{"behind": -time.Hour, "ahead": time.Hour, "right": 0} {
		for _, seen := range []bool{true, false} {
			for away, expired := range map[time.Duration]bool{expiry*time.Second - time.Second: false, expiry*time.Second + time.Second: true} {
				synctest.Test(t, func(t *testing.T) {
					sh := &shared{Cluster: Cluster{Replica: "b", Member: alone{}}}
					sh.holders.began, sh.holders.records, sh.holders.names = time.Now(), map[string]knownOwner{}, map[string]string{}
					time.Sleep(time.Second)
					id := cluster.NewID()
					held := cluster.Owner{Connection: id, Identity: "press"}
					ended := held.End(cluster.Lost, time.Now().Add(clock))
					if seen {
						sh.holders.learn("press", held, 1)
						sh.holders.ready(map[string]bool{"press": true})
						sh.holders.learn("press", ended, 2)
						time.Sleep(away / 2)
						// Its will is sent: the record moves, its connection ended when it did.
						sh.holders.learn("press", ended, 3)
						time.Sleep(away - away/2)
					} else { // it was there when this replica began
						sh.holders.learn("press", ended, 2)
						sh.holders.ready(map[string]bool{"press": true})
						time.Sleep(away)
					}
					c := &connection{server: &Server{shared: sh}, arrived: time.Now()}
					time.Sleep(10 * time.Second) // the store takes its time
					f := &found{owner: &ended, session: &cluster.Session{Identity: "press", Workspace: "plant", Expiry: expiry}}
					want := expired
					if !seen && clock != 0 {
						want = clock < 0 // nothing but the other's clock is known
					}
					if got := c.expired(f, "press"); got != want {
						t.Errorf("clock %s, end seen %v, away %v: expired %v, want %v", skew, seen, away, got, want)
					}
					if got := c.another(f, "press", access.GrantsFor("other", "plant")); got == want {
						t.Errorf("clock %s, end seen %v, away %v: another identity's %v", skew, seen, away, got)
					}
				})
			}
		}
	}
}
