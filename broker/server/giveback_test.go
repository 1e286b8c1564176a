package server

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/metrics"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/state/memory"
)

// slowOwners is a bucket whose first write is answered as unknown, and lands later.
type slowOwners struct {
	state.Bucket
	lands time.Duration // 0: the write is made at once, and answered
	done  chan error
	used  bool
}

func (s *slowOwners) late(do func() (uint64, error)) (uint64, error) {
	if s.lands == 0 || s.used {
		return do()
	}
	s.used = true
	time.AfterFunc(s.lands, func() {
		_, err := do()
		s.done <- err
	})
	return 0, state.ErrUnknown
}

func (s *slowOwners) Create(_ context.Context, key string, value []byte) (uint64, error) {
	return s.late(func() (uint64, error) { return s.Bucket.Create(context.Background(), key, value) })
}

func (s *slowOwners) Update(_ context.Context, key string, value []byte, revision uint64) (uint64, error) {
	return s.late(func() (uint64, error) { return s.Bucket.Update(context.Background(), key, value, revision) })
}

// A CONNECT that was refused leaves nothing behind: the connection before it is the one
// that ended last, so that its will still counts, and nobody holds the identifier, whether
// the claim had landed, lands while it is taken back, or long after.
func TestARefusedConnectLeavesTheOwnerAsItWas(t *testing.T) {
	for _, lands := range []time.Duration{0, time.Nanosecond, 14 * time.Second} {
		for before, ending := range map[string]cluster.Ending{"none": 0, "lost": cluster.Lost, "left": cluster.Left, "held": cluster.Held} {
			t.Run(before+" "+lands.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store, err := memory.Open(memory.Options{})
					if err != nil {
						t.Fatal(err)
					}
					defer store.Close()
					bucket, err := store.Bucket(t.Context(), state.Sessions)
					if err != nil {
						t.Fatal(err)
					}
					owners := &slowOwners{Bucket: bucket, lands: lands, done: make(chan error, 1)}
					ctx, cancel := context.WithCancel(t.Context())
					s := &Server{ctx: ctx, metrics: metrics.New(), log: slog.New(slog.DiscardHandler)}
					sh := &shared{Cluster: Cluster{Replica: "uns-0", Member: alone{}}, server: s, owners: owners}
					sh.holders.records, sh.holders.names = map[string]knownOwner{}, map[string]string{}
					s.shared = sh
					f := &found{}
					was := cluster.Owner{Connection: cluster.NewID(), Identity: "press", Incarnation: cluster.Incarnation{Replica: "uns-1"}}.End(ending, time.Now())
					if before != "none" {
						if f.ownerRevision, err = bucket.Create(t.Context(), "press", was.Encode(cluster.Oldest)); err != nil {
							t.Fatal(err)
						}
						f.owner = &was
					}
					cl := &client{id: "press"}
					c := &connection{server: s, client: cl, lock: &cl.lock, settled: make(chan struct{})}
					err = c.claimOwner(t.Context(), "press", access.GrantsFor("press", "plant"), f)
					if lands > 0 != errors.Is(err, state.ErrUnknown) {
						t.Fatalf("claim: %v", err)
					}
					claim := c.held.owner.Connection
					c.giveBack()
					time.Sleep(time.Minute)
					synctest.Wait()
					r, err := bucket.Get(t.Context(), "press")
					if err != nil {
						t.Fatal(err)
					}
					got, err := cluster.DecodeOwner(r.Value)
					if err != nil {
						t.Fatal(err)
					}
					switch before {
					case "lost", "left":
						if got.Connection != was.Connection || got.Ending != ending || got.Ended != was.Ended {
							t.Errorf("the owner is %+v, want %+v as before", got, was)
						}
					default:
						if got.Connection != claim || got.Ending != cluster.Lost {
							t.Errorf("the owner is %+v, want the claim %v, ended", got, claim)
						}
					}
					cancel()
					s.tasks.Wait()
				})
			})
		}
	}
}
