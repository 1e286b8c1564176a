// Package site starts what replicas in a test's process share: a real NATS cluster
// of three servers and the mesh certificate. The replicas themselves run inside the
// test's process, so that a test reaches into what tests/cluster, with real
// processes, sees from outside only.
//
//	s := site.Start(t)                  // killed when the test ends
//	a, b := s.Replica(t, "a", nil), s.Replica(t, "b", nil)
//
// Each replica has a historian of its own: history is not what these tests share.
package site
