package mesh

import (
	"sync/atomic"

	"maestrohub.io/uns/broker/value"
)

// waiter calls done once everyone it waits for has arrived.
type waiter struct {
	left atomic.Int32
	done func()
}

func (w *waiter) arrive() {
	if w != nil && w.left.Add(-1) == 0 {
		w.done()
	}
}

// SendValues sends each value to the peers that want it. done is called once, when every one of them that
// is linked has acknowledged all its values or is not linked any more: from here if there is none, else
// from a goroutine of the mesh, which it must not hold up. It says that there is nothing more to wait for, also
// when this replica's life has ended: look at the fence before acting on it. A nil done: nobody waits.
//
// Calls that follow each other keep their order at every peer. The values must not change any more; the slices are
// the caller's again after the call. Nothing of this blocks.
func (m *Mesh) SendValues(batch []Outgoing, done func()) {
	var w *waiter
	if done != nil {
		w = &waiter{done: done}
		w.left.Store(1)
	}
	e := encoder{batch: batch}
	var wanted []int
	for _, p := range m.peers.Load().list {
		wanted = wanted[:0]
		for i := range batch {
			for _, id := range batch[i].Peers {
				if id == p.id {
					wanted = append(wanted, i)
					break
				}
			}
		}
		if len(wanted) > 0 {
			p.sendValues(&e, wanted, w)
		}
	}
	w.arrive()
}

// encoder makes the frame of each value of a batch when the first peer needs it.
type encoder struct {
	batch  []Outgoing
	frames [][]byte
	buf    []byte
}

// chunkBytes bounds a buffer that frames share, which lives until the last of them is acknowledged.
const chunkBytes = 64 << 10

func (e *encoder) frame(i int) []byte {
	if e.frames == nil {
		e.frames = make([][]byte, len(e.batch))
	}
	if e.frames[i] == nil {
		v := e.batch[i].Value
		if need := estimate(v); cap(e.buf)-len(e.buf) < need {
			e.buf = make([]byte, 0, max(need, min(chunkBytes, need*(len(e.batch)-i))))
		}
		start := len(e.buf)
		e.buf = appendValue(e.buf, v, e.batch[i].Flags)
		e.frames[i] = e.buf[start:len(e.buf):len(e.buf)]
	}
	return e.frames[i]
}

// estimate is how many bytes the value's frame has, or a little more.
func estimate(v *value.Value) int {
	n := 96 + len(v.Workspace) + len(v.Name) + len(v.Publisher) + len(v.ClientID) + len(v.Payload) +
		len(v.Properties.ContentType) + len(v.Properties.ResponseTopic) + len(v.Properties.CorrelationData)
	for _, u := range v.Properties.User {
		n += 8 + len(u.Key) + len(u.Value)
	}
	for _, s := range v.Shares {
		n += 8 + len(s.Key) + len(s.Session)
	}
	return n
}

func (p *peer) sendValues(e *encoder, wanted []int, w *waiter) {
	for _, i := range wanted {
		e.frame(i)
	}
	now := p.m.now()
	var es effects
	var out evicted
	p.mu.Lock()
	pr := p.pair
	if pr == nil {
		p.mu.Unlock()
		return
	}
	linked := pr.live.linked()
	for n, i := range wanted {
		entry := entry{kind: kindValue, frame: e.frames[i], part: len(e.batch) > 1, at: now}
		if w != nil && n == len(wanted)-1 && linked {
			w.left.Add(1)
			entry.wait = w
		}
		if !linked {
			entry.own()
		}
		if len(entry.frame) > headerBytes+maxPayload {
			p.m.o.Logger.Error("mesh: a value is too large for the mesh and lost for a replica", "peer", p.id, "topic", e.batch[i].Value.Name, "bytes", len(entry.frame), "limit", maxPayload)
			out.values++
			if entry.wait != nil {
				out.waits = append(out.waits, entry.wait)
			}
			continue
		}
		pr.out.push(entry, &out)
	}
	p.sent.Add(uint64(len(wanted)))
	p.evict(&out, &es)
	if p.link != nil {
		p.link.wake()
	}
	p.mu.Unlock()
	es.run(p.m)
}

// evict does what follows an overflow. mu is held.
func (p *peer) evict(out *evicted, es *effects) {
	es.waits = append(es.waits, out.waits...)
	for _, call := range out.shares {
		p.pair.settle(call, ShareReturned, es)
	}
	if out.values > 0 {
		p.lost.Add(uint64(out.values))
		p.m.o.Lost(p.id, out.values)
		if p.m.said.anew(p.id+"/lost", "") {
			p.m.o.Logger.Warn("mesh: values for a replica are lost: more wait for it than may be kept", "peer", p.id, "limit_bytes", p.m.o.RingBytes, "linked", p.pair.live.linked(), "reason", p.reason)
		}
	}
}

// push sends one frame that is not a value. mu is held.
func (p *peer) push(e entry, es *effects) {
	e.at = p.m.now()
	var out evicted
	p.pair.out.push(e, &out)
	p.evict(&out, es)
	if p.link != nil {
		p.link.wake()
	}
}
