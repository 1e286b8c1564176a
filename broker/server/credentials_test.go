package server

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"maestrohub.io/uns/broker/mqtt"
)

// A credential that nobody can check ends its session when its grants end, however the
// store fails to answer: not one timeout later.
func TestASessionWhoseCredentialCannotBeCheckedEndsAtItsDeadline(t *testing.T) {
	const sla = time.Minute // the default of wsRevocationSLA
	for _, takes := range []time.Duration{4 * time.Second, 20 * time.Second, time.Hour} {
		t.Run(takes.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				secret := r.add("press")
				synctest.Wait()
				began := time.Now()
				closed := r.connect("a", "press", secret)
				r.hold(func(string) time.Duration { return takes })
				time.Sleep(5 * sla)
				synctest.Wait()
				select {
				case o := <-closed:
					if takes < recheckTimeout || o.code != mqtt.ServerBusy || o.at.Sub(began) != sla {
						t.Errorf("closed for %v after %v", o.code, o.at.Sub(began))
					}
				default:
					if takes >= recheckTimeout {
						t.Error("not closed")
					}
				}
			})
		})
	}
}

// A client that is disabled at another replica loses all its connections at once: the
// store is asked once for all of them, and nobody waits for a client it does not answer for.
func TestAChangedClientIsLookedUpOnceForAllItsConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		const connections, takes = 200, 6 * time.Second
		hung, pressed := r.add("hung"), r.add("press")
		synctest.Wait()
		var stay, leave []<-chan over
		for i := range connections {
			stay = append(stay, r.connect(fmt.Sprint("hung", i), "hung", hung))
			leave = append(leave, r.connect(fmt.Sprint("press", i), "press", pressed))
		}
		r.hold(func(key string) time.Duration {
			if key == "client/press" {
				return takes
			}
			return time.Hour
		})
		r.slow.mu.Lock()
		clear(r.slow.reads)
		r.slow.mu.Unlock()
		changed := time.Now()
		for _, id := range []string{"hung", "press"} {
			if err := r.elsewhere.Disable(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		for i := range leave {
			if o := <-leave[i]; o.code != mqtt.NotAuthorized || o.at.Sub(changed) > takes+time.Second {
				t.Fatalf("connection %d was closed for %v after %v, want %v after %v", i, o.code, o.at.Sub(changed), mqtt.NotAuthorized, takes)
			}
		}
		for i := range stay {
			if o := <-stay[i]; o.code != mqtt.ServerBusy || o.at.Sub(changed) > time.Minute {
				t.Fatalf("connection %d of a client nobody can check was closed for %v after %v", i, o.code, o.at.Sub(changed))
			}
		}
		r.slow.mu.Lock()
		defer r.slow.mu.Unlock()
		if n := r.slow.reads["client/press"]; n != 1 {
			t.Errorf("the store was asked %d times for one change, want once", n)
		}
	})
}
