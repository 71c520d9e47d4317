package native

import (
	"slices"
	"sync"
	"time"
	"weak"
)

// runs lists all runs; the pointer of a run that was collected is nil.
var runs struct {
	mu   sync.Mutex
	list []weak.Pointer[run] // guarded by mu
}

// listed adds a new run to runs.
func listed(r *run) *run {
	runs.mu.Lock()
	defer runs.mu.Unlock()
	if n := len(runs.list); n == cap(runs.list) { // before it grows
		runs.list = slices.DeleteFunc(runs.list, func(w weak.Pointer[run]) bool { return w.Value() == nil })
	}
	runs.list = append(runs.list, weak.Make(r))
	return r
}

// current returns the number of the last launch, and whether it is running.
func (r *run) current() (turn uint64, live bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.turn, r.live
}

// Overdue returns a channel that is closed once a kernel of a shared object has been running for limit, counted from
// the call at the earliest. The caller must call end, which ends the search.
func Overdue(limit time.Duration) (overdue <-chan struct{}, end func()) {
	late, over := make(chan struct{}), make(chan struct{})
	go func() {
		type begun struct {
			turn uint64
			at   time.Time
		}
		since := map[*run]begun{}
		look := time.NewTicker(max(limit/20, time.Millisecond))
		defer look.Stop()
		for {
			runs.mu.Lock()
			list := slices.Clone(runs.list)
			runs.mu.Unlock()
			for _, w := range list {
				r := w.Value()
				if r == nil {
					continue
				}
				turn, live := r.current()
				if was, ok := since[r]; !live {
					delete(since, r)
				} else if !ok || was.turn != turn {
					since[r] = begun{turn, time.Now()}
				} else if time.Since(was.at) >= limit {
					close(late)
					return
				}
			}
			select {
			case <-look.C:
			case <-over:
				return
			}
		}
	}()
	return late, sync.OnceFunc(func() { close(over) })
}
