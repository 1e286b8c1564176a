package server

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// agenda runs tasks at their time: session expiries, delayed wills, credential
// deadlines. One goroutine and one timer serve them all, so that an offline
// session costs neither.
type agenda struct {
	mu    sync.Mutex
	tasks taskHeap
	wake  chan struct{}
}

// task is one entry. It is run at most once; cancel takes it out.
type task struct {
	at    time.Time
	run   func()
	index int // in the heap; -1 when not in it
}

func newAgenda() *agenda { return &agenda{wake: make(chan struct{}, 1)} }

// add has run called at the given time, on the agenda's goroutine: it must not
// wait for anything.
func (a *agenda) add(at time.Time, run func()) *task {
	t := &task{at: at, run: run}
	a.mu.Lock()
	heap.Push(&a.tasks, t)
	first := t.index == 0
	a.mu.Unlock()
	if first {
		select {
		case a.wake <- struct{}{}:
		default:
		}
	}
	return t
}

// cancel takes t out; false means that it has run or is about to.
func (a *agenda) cancel(t *task) bool {
	if t == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if t.index < 0 {
		return false
	}
	heap.Remove(&a.tasks, t.index)
	return true
}

func (a *agenda) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		a.mu.Lock()
		var due []*task
		now := time.Now()
		for len(a.tasks) > 0 && !a.tasks[0].at.After(now) {
			due = append(due, heap.Pop(&a.tasks).(*task))
		}
		wait := time.Hour
		if len(a.tasks) > 0 {
			wait = time.Until(a.tasks[0].at)
		}
		a.mu.Unlock()
		for _, t := range due {
			t.run()
		}
		if len(due) > 0 {
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-a.wake:
		}
	}
}

// taskHeap orders tasks by time (container/heap).
type taskHeap []*task

func (h taskHeap) Len() int           { return len(h) }
func (h taskHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h taskHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *taskHeap) Push(x any) {
	t := x.(*task)
	t.index = len(*h)
	*h = append(*h, t)
}

// Pop implements heap.Interface.
func (h *taskHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	t.index = -1
	*h = old[:len(old)-1]
	return t
}
