package native

import (
	"time"

	"ropeway/internal/kernel"
)

// SetGrace changes how long a stopped kernel may take to leave, and returns what undoes that.
func SetGrace(d time.Duration) (undo func()) {
	was := grace
	grace = d
	return func() { grace = was }
}

// SetMostSeen changes how many touched pages are seen, to fewer, and returns what undoes that.
func SetMostSeen(n uint32) (undo func()) {
	was := mostSeen
	mostSeen = n
	return func() { mostSeen = was }
}

// EachChange makes the steps from one list of views to another, and says of each what it does.
func EachChange(from, to []kernel.View, f func(v kernel.View, remove, replace bool)) []kernel.View {
	for _, s := range changes(from, to) {
		f(s.View, s.remove, s.replace)
		from = s.apply(from)
	}
	return from
}
