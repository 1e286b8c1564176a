package ingest

// flushes remembers which Completions a batch completed to, so that each is
// flushed once. Batches come from few connections, mostly in runs.
type flushes struct {
	list []Completion
	seen map[Completion]struct{} // used beyond a length at which searching costs more
}

const searchedFlushes = 16

func (f *flushes) complete(c Completion, slot uint64, o Outcome) {
	c.Complete(slot, o)
	n := len(f.list)
	if n > 0 && f.list[n-1] == c {
		return
	}
	if n < searchedFlushes {
		for _, have := range f.list {
			if have == c {
				return
			}
		}
		f.list = append(f.list, c)
		return
	}
	if len(f.seen) == 0 {
		if f.seen == nil {
			f.seen = make(map[Completion]struct{})
		}
		for _, have := range f.list {
			f.seen[have] = struct{}{}
		}
	}
	if _, have := f.seen[c]; !have {
		f.seen[c] = struct{}{}
		f.list = append(f.list, c)
	}
}

func (f *flushes) flush() {
	for n, c := range f.list {
		f.list[n] = nil
		c.Flush()
	}
	f.list = f.list[:0]
	clear(f.seen)
}
