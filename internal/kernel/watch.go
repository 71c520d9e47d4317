package kernel

import "sync/atomic"

// Range is memory that kernels may touch: whole pages.
type Range struct{ Lo, Hi uintptr }

// A Watch begins to see which pages of these ranges, sorted and closed to the process, its kernels touch. Each page is
// opened when it is touched. end ends it, and says what was seen: whole pages, sorted, and whether that is all. A read
// is seen if no write to its page came before it. end is nil if nothing can be seen; then nothing is opened, either.
// There is one watch at a time.
type Watch func(pages []Range) (end func() (list []Touch, all bool))

var watch atomic.Pointer[Watch]

// RegisterWatch says how to watch kernels of this process.
func RegisterWatch(w Watch) { watch.Store(&w) }

// WatchPages is the Watch of the process.
func WatchPages(pages []Range) (end func() (list []Touch, all bool)) {
	if w := watch.Load(); w != nil {
		return (*w)(pages)
	}
	return nil
}
