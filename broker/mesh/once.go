package mesh

import "sync/atomic"

// once returns f of which only the first call counts.
func once[T any](f func(T)) func(T) {
	var given atomic.Bool
	return func(v T) {
		if !given.Swap(true) {
			f(v)
		}
	}
}
