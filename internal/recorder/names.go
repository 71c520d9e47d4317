package recorder

import (
	"maps"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"ropeway/internal/observe"
)

// names are the functions, sites, modules and threads named so far.
type names struct {
	functions atomic.Pointer[map[string]uint16] // replaced, never changed

	mu      sync.Mutex
	next    uint32            // guarded by mu; number of the next function or site
	sites   map[called]uint16 // guarded by mu
	modules map[string]uint32 // guarded by mu; by file
	threads map[uint32]string // guarded by mu
}

// called is a function and a site that calls it.
type called struct {
	function uint16
	site     observe.Site
}

func (n *names) init() {
	n.functions.Store(&map[string]uint16{})
	// lockcheck: n is not shared yet
	n.sites, n.modules, n.threads = map[called]uint16{}, map[string]uint32{}, map[uint32]string{}
}

// number returns a new number for a function or a site; false if none is left. mu is held.
func (n *names) number() (uint16, bool) {
	if n.next > math.MaxUint16 {
		return 0, false
	}
	n.next++
	return uint16(n.next - 1), true
}

// Function implements observe.Tracer. A new name takes a lock.
func (r *Recorder) Function(name string) uint16 {
	if n, ok := (*r.names.functions.Load())[name]; ok {
		return n
	}
	r.names.mu.Lock()
	defer r.names.mu.Unlock()
	old := *r.names.functions.Load()
	if n, ok := old[name]; ok {
		return n
	}
	n, _ := r.names.number()
	more := maps.Clone(old)
	more[name] = n
	r.text(TextFunction, uint32(n), name)
	r.names.functions.Store(&more)
	return n
}

// functionsLeft is the count of numbers reserved for functions.
const functionsLeft = 4096

// From implements observe.Tracer. It takes a lock, and for a new address it reads a file.
func (r *Recorder) From(function uint16, s observe.Site) uint16 {
	r.names.mu.Lock()
	defer r.names.mu.Unlock()
	key := called{function, s}
	if n, ok := r.names.sites[key]; ok {
		return n
	}
	if s == (observe.Site{}) || r.names.next >= math.MaxUint16-functionsLeft {
		return function
	}
	l := line{0, uint64(s.Line)}
	if s.PC != 0 {
		var file, build string
		if r.locate != nil {
			file, l[2], build = r.locate(s.PC)
		}
		if file == "" {
			r.names.sites[key] = function
			return function
		}
		l[1] = uint64(r.module(file, build)+1) << 32
	}
	n, _ := r.names.number()
	r.names.sites[key] = n
	l[0] = uint64(SiteType) | uint64(n)<<16 | uint64(function)<<32
	if s.PC == 0 {
		r.text(TextFile, uint32(n), s.File)
		r.text(TextIn, uint32(n), s.Function)
	}
	r.put(uint32(n), &l)
	return n
}

// module returns the number of an executable or library. names.mu is held.
func (r *Recorder) module(file, build string) uint32 {
	n, ok := r.names.modules[file]
	if !ok {
		n = uint32(len(r.names.modules))
		r.names.modules[file] = n
		r.text(TextModule, n, file)
		r.text(TextBuild, n, build)
	}
	return n
}

// Sites implements observe.Tracer.
func (r *Recorder) Sites() bool { return true }

// Thread implements observe.Tracer: it records the system's name of the thread, which it reads from a file.
func (r *Recorder) Thread(id uint32) {
	if id == 0 {
		return
	}
	b, err := os.ReadFile("/proc/self/task/" + strconv.Itoa(int(id)) + "/comm")
	if err != nil {
		return
	}
	name := strings.TrimSpace(string(b))
	r.names.mu.Lock()
	defer r.names.mu.Unlock()
	if old, ok := r.names.threads[id]; ok && old == name {
		return
	}
	r.names.threads[id] = name
	r.text(TextThread, id, name)
}

// Left implements observe.Tracer.
func (r *Recorder) Left(id uint32) {
	r.Thread(id)
	r.names.mu.Lock()
	defer r.names.mu.Unlock()
	delete(r.names.threads, id)
}

// renameThreads records the names of threads that have changed.
func (r *Recorder) renameThreads() {
	r.names.mu.Lock()
	ids := make([]uint32, 0, len(r.names.threads))
	for id := range r.names.threads {
		ids = append(ids, id)
	}
	r.names.mu.Unlock()
	for _, id := range ids {
		r.Thread(id)
	}
}
