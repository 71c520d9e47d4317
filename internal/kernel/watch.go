package kernel

import "sync/atomic"

// Range is memory that kernels may touch: whole pages.
type Range struct{ Lo, Hi uintptr }

// A Watch starts recording which pages of these ranges, sorted and closed to the process, its kernels touch. A
// touched page is opened. end stops it and returns the touched memory: whole pages, sorted, and whether the list is
// complete. A read is recorded if no write to its page came before it. end is nil if the process cannot watch; then
// no page is opened. There is one watch at a time.
type Watch func(pages []Range) (end func() (list []Touch, all bool))

var watch atomic.Pointer[Watch]

// RegisterWatch sets the Watch of this process.
func RegisterWatch(w Watch) { watch.Store(&w) }

// WatchPages is the Watch of the process.
func WatchPages(pages []Range) (end func() (list []Touch, all bool)) {
	if w := watch.Load(); w != nil {
		return (*w)(pages)
	}
	return nil
}
