package tracing

import (
	"maps"
	"runtime"
	"sync"
	"sync/atomic"

	"ropeway/internal/observe"
)

// A front end that reports its calls also reports their lines. For a Go program the core finds the innermost function
// outside of ropeway. It caches results, so that a call costs the walk of a few frames.

// lines caches lookups of addresses in a Go program's stacks.
type lines struct {
	mu    sync.Mutex                // held to replace the maps
	ours  atomic.Pointer[oursAt]    // replaced, never changed
	known atomic.Pointer[numbersAt] // likewise
}

type (
	oursAt    = map[uintptr]bool    // whether a return address is in a function of ropeway
	numbersAt = map[calledAt]uint16 // the tracer's numbers
)

// calledAt is a function, by the tracer's number, and the address of a call.
type calledAt struct {
	function uint16
	pc       uintptr
}

const (
	deepestLine = 16   // most functions of ropeway above the program's
	mostLines   = 8192 // most addresses in the caches
)

// Called returns the tracer's number for a call of api by a Go program, with its line if the tracer wants it.
func (v *View) Called(api string) uint16 {
	function := v.trace.Function(api)
	if !v.sites {
		return function
	}
	var pcs [deepestLine]uintptr
	n := runtime.Callers(2, pcs[:])
	l := &v.lines
	for _, pc := range pcs[:n] {
		if l.isOurs(pc) {
			continue
		}
		if known := l.known.Load(); known != nil {
			if number, ok := (*known)[calledAt{function, pc}]; ok {
				return number
			}
		}
		return l.number(v.trace, function, pc)
	}
	return function
}

// isOurs reports whether a return address is in a function of ropeway.
func (l *lines) isOurs(pc uintptr) bool {
	known := l.ours.Load()
	if known != nil {
		if is, ok := (*known)[pc]; ok {
			return is
		}
	}
	f, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	is := observe.Own(f.Function)
	keepLine(&l.mu, &l.ours, pc, is)
	return is
}

// number returns the tracer's number for a function that is called from an address.
func (l *lines) number(o observe.Tracer, function uint16, pc uintptr) uint16 {
	f, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	n := o.From(function, observe.Site{File: f.File, Line: f.Line, Function: f.Function})
	keepLine(&l.mu, &l.known, calledAt{function, pc}, n)
	return n
}

// keepLine adds a pair to a map that is read without a lock, unless the map is too large.
func keepLine[K comparable, V any](mu *sync.Mutex, in *atomic.Pointer[map[K]V], key K, value V) {
	mu.Lock()
	defer mu.Unlock()
	old := in.Load()
	more := map[K]V{}
	if old != nil {
		if len(*old) >= mostLines {
			return
		}
		more = maps.Clone(*old)
	}
	more[key] = value
	in.Store(&more)
}
