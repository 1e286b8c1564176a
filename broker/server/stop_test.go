package server

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/listener"
	"maestrohub.io/uns/broker/metrics"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/broker/session"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/memory"
)

// A stop in order waits for what is written last about connections that had ended before
// it, too: the device that has said goodbye would be one that was lost with its replica, whose
// will is sent; and so would be the one before a CONNECT that was refused.
func TestAStopWaitsForConnectionsThatHadEnded(t *testing.T) {
	for name, end := range map[string]func(*connection){
		"said goodbye":            func(c *connection) { c.end(ending{why: "disconnected", properly: true}) },
		"its CONNECT was refused": func(c *connection) { c.giveBack() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, err := memory.Open(memory.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer store.Close()
				bucket := func(name string) state.Bucket {
					b, err := store.Bucket(t.Context(), name)
					if err != nil {
						t.Fatal(err)
					}
					return b
				}
				ctx, cancel := context.WithCancel(t.Context())
				let := make(chan struct{})
				s := &Server{ctx: ctx, cancel: cancel, metrics: metrics.New(), log: slog.New(slog.DiscardHandler), agenda: newAgenda()}
				s.limits.ConnectBudget = time.Minute
				sh := &shared{Cluster: Cluster{Replica: "uns-0", Member: alone{}}, server: s, owners: &heldBack{bucket(state.Sessions), let}, wills: bucket(state.SessionWill)}
				sh.holders.records, sh.holders.names = map[string]knownOwner{}, map[string]string{}
				s.shared = sh
				ours, theirs := net.Pipe()
				defer ours.Close()
				cl := &client{id: "press"}
				c := &connection{server: s, client: cl, lock: &cl.lock, nc: &listener.Conn{Conn: theirs}, version: mqtt.V5, session: &session.Session{ClientID: "press"},
					ws: &workspace{server: s}, settled: make(chan struct{}), attached: true}
				c.out = output{nc: theirs, metrics: s.metrics}
				lost := cluster.Owner{Connection: cluster.NewID(), Identity: "press"}.End(cluster.Lost, time.Now())
				h := &holding{owner: cluster.Owner{Connection: cluster.NewID(), Identity: "press"}, over: &lost}
				if h.ownerRevision, err = sh.owners.Create(t.Context(), "press", h.owner.Encode(cluster.Oldest)); err != nil {
					t.Fatal(err)
				}
				h.will = &cluster.Will{Client: "press", Connection: h.owner.Connection}
				key := cluster.WillKey(h.owner.Connection)
				if h.willRevision, err = sh.wills.Create(t.Context(), key, h.will.Encode(cluster.Oldest)); err != nil {
					t.Fatal(err)
				}
				c.held = h
				s.claims.Store(c, nil)
				end(c)
				stopped := make(chan error, 1)
				go func() { stopped <- s.Stop(t.Context()) }()
				synctest.Wait()
				if len(stopped) > 0 {
					t.Fatal("it stops before its last word is written")
				}
				close(let)
				if err := <-stopped; err != nil {
					t.Fatal(err)
				}
				r, err := sh.owners.Get(t.Context(), "press")
				if err != nil {
					t.Fatal(err)
				}
				got, err := cluster.DecodeOwner(r.Value)
				if err != nil || got.Ending != cluster.Left && got.Connection != lost.Connection {
					t.Errorf("the owner is %+v, %v", got, err)
				}
				if _, err := sh.wills.Get(t.Context(), key); err == nil {
					t.Error("its will is kept")
				}
			})
		})
	}
}
