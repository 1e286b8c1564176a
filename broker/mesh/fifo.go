package mesh

// fifo is a queue in a circular buffer. The zero value is empty.
type fifo[T any] struct {
	buf  []T // length a power of two
	head int
	n    int
}

// keptSlots is the largest buffer an empty queue keeps.
const keptSlots = 4096

func (q *fifo[T]) len() int { return q.n }

// at returns the i-th element from the front; it stays valid until the next push or pop.
func (q *fifo[T]) at(i int) *T { return &q.buf[(q.head+i)&(len(q.buf)-1)] }

func (q *fifo[T]) push(v T) {
	if q.n == len(q.buf) {
		grown := make([]T, max(16, 2*len(q.buf)))
		for i := range q.n {
			grown[i] = *q.at(i)
		}
		q.buf, q.head = grown, 0
	}
	q.n++
	*q.at(q.n - 1) = v
}

func (q *fifo[T]) pop() T {
	p := q.at(0)
	v := *p
	var zero T
	*p = zero
	q.head = (q.head + 1) & (len(q.buf) - 1)
	q.n--
	if q.n == 0 && len(q.buf) > keptSlots {
		q.buf, q.head = nil, 0
	}
	return v
}
