package memory

import "time"

const (
	minChunk = 16 << 10
	maxChunk = 1 << 20
	// overhead is what a record costs beside its data, as the bound of a log
	// counts it: its mark, and its share of the rest.
	overhead = 24
)

// mark is where a record lies in its chunk.
type mark struct {
	end  uint32 // its data ends here and begins where the one before ends
	time int64  // ns since 1970
}

// chunk is a part of a log: records at consecutive sequences. Bytes once written
// never change, so readers may keep slices of data without a lock.
type chunk struct {
	first uint64 // sequence of marks[0]
	data  []byte
	marks []mark
}

func newChunk(first uint64, size int) *chunk {
	return &chunk{first: first, data: make([]byte, 0, size), marks: make([]mark, 0, max(size/128, 8))}
}

// next is the sequence after the chunk's last.
func (c *chunk) next() uint64 { return c.first + uint64(len(c.marks)) }

func (c *chunk) room() int { return cap(c.data) - len(c.data) }

func (c *chunk) add(record []byte, now int64) {
	c.data = append(c.data, record...)
	c.marks = append(c.marks, mark{uint32(len(c.data)), now})
}

func (c *chunk) at(sequence uint64) (data []byte, m mark) {
	i := sequence - c.first
	m = c.marks[i]
	var start uint32
	if i > 0 {
		start = c.marks[i-1].end
	}
	return c.data[start:m.end:m.end], m
}

// cost is what the record at sequence counts against the log's bound.
func (c *chunk) cost(sequence uint64) int64 {
	data, _ := c.at(sequence)
	return int64(len(data)) + overhead
}

func (m mark) at() time.Time { return time.Unix(0, m.time) }
