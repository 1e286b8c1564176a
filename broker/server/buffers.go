package server

import "sync"

// Sizes of the pooled buffers. A connection holds none while it is idle; a
// small one serves the common exchange of a few packets, a large one a stream.
const (
	smallBuffer = 4 << 10
	largeBuffer = 64 << 10
)

// bufferPool hands out byte buffers of one capacity.
type bufferPool struct {
	size int
	pool sync.Pool
}

var (
	smallBuffers = bufferPool{size: smallBuffer}
	largeBuffers = bufferPool{size: largeBuffer}
)

func (p *bufferPool) get() []byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, p.size)
}

// putBuffer gives a buffer back to the pool it fits. One that grew to another
// size, or for an oversize packet, is left to the garbage collector.
func putBuffer(b []byte) {
	switch {
	case cap(b) >= largeBuffer && cap(b) <= 4*largeBuffer:
		largeBuffers.pool.Put(&b)
	case cap(b) >= smallBuffer && cap(b) < 2*smallBuffer:
		smallBuffers.pool.Put(&b)
	}
}
