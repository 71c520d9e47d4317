package native

import (
	"slices"
	"sync"
	"time"
	"weak"
)

// runs are all runs that there are; one that nobody has any more is nil.
var runs struct {
	mu   sync.Mutex
	list []weak.Pointer[run] // guarded by mu
}

// listed enters a new run in runs.
func listed(r *run) *run {
	runs.mu.Lock()
	defer runs.mu.Unlock()
	if n := len(runs.list); n == cap(runs.list) { // before it grows
		runs.list = slices.DeleteFunc(runs.list, func(w weak.Pointer[run]) bool { return w.Value() == nil })
	}
	runs.list = append(runs.list, weak.Make(r))
	return r
}

// current returns the number of the launch that was begun last, and whether it goes on.
func (r *run) current() (turn uint64, live bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.turn, r.live
}

// Overdue returns a channel that is closed when a kernel of a shared object has been running for a time, counted from
// now on at the earliest. end ends the search, and must be called.
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
