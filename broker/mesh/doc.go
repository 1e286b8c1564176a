// Package mesh links the replicas of one broker directly: live values go from the replica they were
// published on to the subscribers of another in one hop, and so do the few questions two replicas ask
// each other. Nothing of it is durable and nothing of it goes through the shared state.
//
// # Words
//
// A life is one incarnation of one replica. A pair is a life of this replica and a life of a peer; all
// numbers and everything kept belong to a pair and end with it. A link is one connection of a pair; a
// pair has one at a time and many one after the other.
//
// # What it promises
//
// Within a pair, frames arrive in the order they were sent, none twice, over any number of links. None
// is missing but values that were dropped because more than Options.RingBytes waited: the oldest that
// were never on a wire, each counted. What has been on a wire is kept until it is acknowledged, at most
// 4 MiB. What a pair still holds when it ends is dropped and not counted: nobody is left to miss it.
//
// SendValues calls back when every peer that was linked has acknowledged, which a peer does once its
// Handler returned: the values are in its subscribers' queues. A peer is linked while its link is up, or
// was lost less than 0.8 s ago and not found dead since, and while nothing has waited 3 s for its
// acknowledgment. When a peer is not linked any more the call-backs go on without it; its frames stay
// in the ring and are sent when it is back.
//
// A link is lost when the connection is, when its other end says so, or after 3 s without a byte.
//
// Just before anything is written, Options.MayAct is asked; when it says no, the link ends instead. All that leaves
// such a replica is the refusal of a link.
//
// # The life of a link
//
//  1. The replica with the lower id dials, again and again while the peer's life may be linked.
//  2. TLS 1.3. Both ends show the deployment's one certificate and take exactly that one, whenever it ends. While
//     it is renewed there are two: each end takes the other's as well if the deployment's own authority
//     (Identity.Authorities), which signs nothing else, has signed it for the same name. Identity is asked at each
//     handshake; links that stand are not touched by a renewal.
//  3. Hello both ways: release range of the protocol, replica, incarnation, number of the attempt. With
//     no version in common, for a life that is over, or for the wrong replica: a refusal that says why,
//     and no link. A hello may show a newer life before the membership does.
//  4. Resume both ways: the last number handled of the other's frames. The sender drops what arrived,
//     and goes on after it.
//  5. Frames. Every frame begins with its format number. Those of the handshake, ping, ack, skip,
//     applied and bye are not numbered; value, share, settled, release, released, returning, report and
//     reported are numbered by counting. Skip announces that numbers are left out, which were dropped. Ping names
//     the last number, so that two ends that count differently part at once.
//  6. A frame that cannot be read ends the link, with the reason in a bye and in the log. A well-formed
//     value frame whose record cannot be read is counted and passed over: sent again it would be no
//     better, and the link would never stand.
//
// # Using it
//
//	m, err := mesh.New(options)      // listens; does nothing yet
//	m.Begin(incarnation)             // after the member entry landed, and after every unfence
//	m.SetPeer(peer)                  // for each member entry, and each time one changes
//	m.SendValues(batch, done)        // live copies, in lane order
//	m.SendShare(...), m.Release(...), m.AnnounceReturning(...), m.ReportApplied(...)
//	m.Report(ctx, replica)           // what another replica says of itself, for people
//	m.End()                          // at the fence
//	m.Close()
//
// # What it leaves to others
//
// Who is a member, which life is over and who wants a value is told to it. It decides nothing from a
// lost link: that a peer is not linked does not mean that it is gone.
//
// # Inside
//
// outbox, inbox, liveness and handshake are plain values without goroutine, lock or clock. A peer's lock
// guards its pair; it is never held during a write, a read or a call-back. A link has a reader, which
// also calls the Handler, and a writer, which sends what gathered during its last write as one.
package mesh
