package native

import (
	"sync"
	"time"
	"weak"
)

// running is a run of either kind.
type running interface {
	// current returns the number of the launch that was begun last, and whether it goes on.
	current() (turn uint64, live bool)
}

// runs are all runs that there are; one that nobody has any more is nil.
var runs struct {
	mu   sync.Mutex
	list []func() running // guarded by mu
}

// listed enters a new run in runs.
func listed[R any, P interface {
	*R
	running
}](r P) P {
	w := weak.Make((*R)(r))
	find := func() running {
		if r := w.Value(); r != nil {
			return P(r)
		}
		return nil
	}
	runs.mu.Lock()
	defer runs.mu.Unlock()
	if n := len(runs.list); n == cap(runs.list) { // before it grows
		left := runs.list[:0]
		for _, f := range runs.list {
			if f() != nil {
				left = append(left, f)
			}
		}
		clear(runs.list[len(left):])
		runs.list = left
	}
	runs.list = append(runs.list, find)
	return r
}

func (r *run) current() (turn uint64, live bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.turn, r.live
}

func (r *outside) current() (turn uint64, live bool) {
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
		since := map[running]begun{}
		look := time.NewTicker(max(limit/20, time.Millisecond))
		defer look.Stop()
		for {
			runs.mu.Lock()
			list := append([]func() running(nil), runs.list...)
			runs.mu.Unlock()
			for _, find := range list {
				r := find()
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
