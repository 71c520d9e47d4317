// Package arena allocates ranges of one memfd that is mapped twice.
//
// An [Arena] has a window, the addresses programs see, and an engine mapping,
// always readable and writable, through which the copy engine accesses the same bytes: engine address = window
// address + [Arena.Delta]. The window is closed (PROT_NONE) for device memory and open for pinned host memory.
//
// # Layout
//
// The window is divided into chunks of 64 KiB, 32 chunks to an extent of 2 MiB, 1024 chunks to a region of 64 MiB. An
// allocation over 32 KiB takes a run of whole chunks; smaller ones share a chunk, a slab of 128 granules of 512
// bytes. The metadata of a chunk is in its region, which is created when first needed and not moved or freed before
// Close, so lookups need no lock.
//
// # Locks
//
// Arena.mu guards the free runs, the slabs and the counters; no system call is made with it held. A run taken out of
// the free bins belongs to the call that took it, until that call publishes it or puts it back with mu held. The
// locks of Arena.preparing and Arena.movers come before mu. Budget.mu is never taken with Arena.mu held, and neither
// is held while the other side is called.
//
// # Files of their own
//
// Memory that is shared with other processes is moved out of the arena's memfd: an allocation ([Arena.Separate]), a
// chunk of small ones, or a [Block], which is memory without an address in the window. Its [File] is mapped where the
// bytes were. When the memory is freed, the memfd is mapped there again before the addresses are reused.
//
// # Caveats
//
// Allocations are not cleared: they have the bytes that earlier ones left. Up to 64 MiB are backed with pages at
// allocation; a larger range gets pages when it is touched or when [Arena.Prepare] is called. The caller may not free
// a range, nor close the arena, while a copy uses it.
package arena

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	pageShift    = 12
	granShift    = 9
	chunkShift   = 16
	extentShift  = 21
	regionShift  = 26
	pageSize     = 1 << pageShift
	chunkSize    = 1 << chunkShift
	extentSize   = 1 << extentShift
	pagesInChunk = chunkSize / pageSize
	chunksInExt  = extentSize / chunkSize
	chunksInReg  = 1 << (regionShift - chunkShift)
	extsInReg    = 1 << (regionShift - extentShift)
	gransInChunk = chunkSize >> granShift

	smallMax           = 32 << 10 // the largest size that shares a chunk
	defaultPopulateMax = 64 << 20
	defaultCacheLimit  = 256 << 20

	// MaxCapacity is the largest capacity of an arena; an index entry has 39 bits for an offset.
	MaxCapacity = 1 << offsetBits
)

// Reserved returns the number of bytes that [Reserve] reserves for n.
func Reserved(n uint64) uint64 { return (n + extentSize - 1) &^ (extentSize - 1) }

var (
	// ErrNoMemory is wrapped when the window has no room, or the budget or the
	// kernel refuses to back it.
	ErrNoMemory = errors.New("arena: out of memory")
	// ErrNotAllocated is wrapped by Free when the address is not the start of a
	// live allocation.
	ErrNotAllocated = errors.New("arena: not the start of a live allocation")
	// ErrClosed is wrapped by Alloc, Free and Prepare after Close.
	ErrClosed = errors.New("arena: closed")
	// ErrUnsupported is returned by New where memfd does not exist.
	ErrUnsupported = errors.New("arena: not supported on this system")
)

// Options are the properties of an [Arena].
type Options struct {
	Name       string  // memfd name, shows up in /proc/PID/maps
	Capacity   uint64  // multiple of 2 MiB, at most MaxCapacity
	WindowProt int     // unix.PROT_NONE or unix.PROT_READ|unix.PROT_WRITE
	WindowAt   uintptr // 0, or a 2 MiB aligned address inside a reservation ([Reserve])
	OwnPages   bool    // no two allocations share a page (they take whole chunks)
	Fresh      bool    // freed addresses are quarantined and closed (see quarantine.go); implies OwnPages
	Fenced     bool    // closed addresses separate allocations (see fence.go); implies Fresh
	Limit      uint64  // bytes that may be live at one time; 0: Capacity
	Budget     *Budget // shared by all arenas of the process; nil for no limit
	CacheLimit uint64  // free bytes kept resident before holes are punched (see sweep.go); 0: 256 MiB

	populateMax uint64        // tests only; 0: 64 MiB
	sweepAfter  time.Duration // tests only; 0: sweepAfter
}

// HugePolicy is a request for 2 MiB pages.
type HugePolicy uint8

// In software, huge pages only affect speed, so no policy fails if there are none: every policy backs whole 2 MiB
// extents with huge pages where the kernel provides them (measured, allocation and free of new pages: 2 MiB 150 µs
// against 1,870, 64 MiB 11 ms against 68). The policy decides what Range.PageSize reports and, for Require, that the
// allocation takes whole extents.
const (
	Normal  HugePolicy = iota // 4 KiB page kind
	Prefer                    // 2 MiB page kind for sizes over 1 MiB, else 4 KiB
	Require                   // 2 MiB page kind; takes whole 2 MiB extents
)

// AllocOptions are the options of one allocation.
type AllocOptions struct {
	Huge HugePolicy
	Tag  uint32 // for the caller; returned in Range
}

// Range is one live allocation.
type Range struct {
	Start    uintptr // window address
	Size     uint64  // exactly as requested
	PageSize uint32  // 4096 or 2 MiB, by policy (see HugePolicy)
	Tag      uint32
	ID       uint64 // unique in this arena, never reused, never 0
}

// Stats is a snapshot of the counters.
type Stats struct {
	Live     uint64 // bytes of live allocations, as requested
	Count    uint64 // live allocations
	Peak     uint64 // largest value of Live so far
	Cached   uint64 // resident bytes of chunks that are free
	Huge     uint64 // bytes backed by huge pages, live or cached
	Resident uint64 // bytes of memory the kernel holds for the memfd
}

// Arena is a range allocator over one memfd. Methods are safe for concurrent
// use, except that nothing may run at the same time as Close.
type Arena struct {
	base     uintptr                  // immutable; window
	capacity uint64                   // immutable
	fenced   bool                     // immutable; here because Room reads it
	dir      []atomic.Pointer[region] // slice immutable; entries set once under mu, cleared by Close
	// slice immutable; entries of extents that one run covers, else 0; written under mu
	ext    []atomic.Uint64
	delta  uintptr // immutable; engine - window
	engine pointer // immutable; start of the engine mapping

	name        string // immutable, like all fields down to acct
	fd          int    // the memfd; owned by the arena
	reserved    bool   // the window lies in a caller's reservation
	ownPages    bool   //
	fresh       bool   //
	prot        int    // of open parts of the window
	limit       uint64 // of live bytes
	cacheLimit  uint64 //
	populateMax uint64 //
	sweepAfter  time.Duration
	acct        *Account // nil without a budget

	shown    atomic.Bool  // the window of closed memory is open: see Show
	isolated atomic.Bool  // pages have been isolated: see Isolate
	skipHuge atomic.Int32 // number of attempts at huge pages to skip, after one has failed

	preparing [16]sync.Mutex // held, by extent number, while an extent of a lazy allocation gets its pages

	movers sync.Mutex // held while bytes move to a file of their own

	mu          sync.Mutex
	idle        sync.Cond       // on mu; signalled when limbo falls to 0
	closed      bool            // guarded by mu
	limbo       int             // guarded by mu; runs taken from the bins that will be put back
	nextID      uint64          // guarded by mu
	runs        runBins         // guarded by mu
	quarantined []run           // guarded by mu; freed runs that are not in the bins, oldest first; see quarantine.go
	moving      *move           // guarded by mu; run that is being moved to a file of its own; see separate.go
	separated   map[int32]*File // guarded by mu; the files of runs that have one, by their first chunk
	slabs       slabBins        // guarded by mu
	live        uint64          // guarded by mu; as Stats
	count       uint64          // guarded by mu; as Stats
	peak        uint64          // guarded by mu; as Stats
	cached      uint64          // guarded by mu; as Stats
	hugeExts    uint64          // guarded by mu; extents known to be huge
	sweeper     *time.Timer     // guarded by mu; calls sweep; nil if no sweep is scheduled
	quietAt     uint64          // guarded by mu; nextID when sweeper was set
}

// New creates an arena. If a mapping does not fit (ulimit -v, a sanitizer), the error wraps the errno, and the caller
// may retry with half the capacity.
func New(o Options) (*Arena, error) {
	switch {
	case o.Capacity == 0 || o.Capacity%extentSize != 0 || o.Capacity > MaxCapacity:
		return nil, fmt.Errorf("arena: capacity %d is not a multiple of 2 MiB up to %d", o.Capacity,
			uint64(MaxCapacity))
	case o.WindowAt%extentSize != 0:
		return nil, fmt.Errorf("arena: window address %#x is not 2 MiB aligned", o.WindowAt)
	}
	if o.CacheLimit == 0 {
		o.CacheLimit = defaultCacheLimit
	}
	if o.populateMax == 0 {
		o.populateMax = defaultPopulateMax
	}
	if o.sweepAfter == 0 {
		o.sweepAfter = sweepAfter
	}
	a := &Arena{
		capacity:    o.Capacity,
		dir:         make([]atomic.Pointer[region], (o.Capacity+1<<regionShift-1)>>regionShift),
		ext:         make([]atomic.Uint64, o.Capacity>>extentShift),
		name:        o.Name,
		reserved:    o.WindowAt != 0,
		ownPages:    o.OwnPages || o.Fresh || o.Fenced,
		fresh:       o.Fresh || o.Fenced,
		fenced:      o.Fenced,
		prot:        o.WindowProt,
		limit:       min(o.Limit, o.Capacity),
		cacheLimit:  o.CacheLimit,
		populateMax: o.populateMax,
		sweepAfter:  o.sweepAfter,
	}
	if a.limit == 0 {
		a.limit = a.capacity
	}
	if a.fresh {
		o.WindowProt = 0 // PROT_NONE; Alloc opens it
	}
	a.idle.L = &a.mu
	if err := a.mapBoth(o.WindowProt, o.WindowAt); err != nil {
		return nil, fmt.Errorf("arena %s: %w", o.Name, err)
	}
	a.runs.init()
	a.slabs.init()
	first := a.fence() // the addresses before the first allocation are closed, too
	a.putRun(first, int32(o.Capacity>>chunkShift)-first)
	if o.Budget != nil {
		a.acct = o.Budget.Open(a.resident, a.Trim)
	}
	return a, nil
}

// Close unmaps both mappings and closes the memfd; a window in a reservation becomes reserved address space again.
// Live allocations end. Close is idempotent; no other method may run at the same time. Later lookups find nothing.
func (a *Arena) Close() error {
	a.mu.Lock()
	done := a.closed
	a.closed = true
	if a.sweeper != nil {
		a.sweeper.Stop()
	}
	for a.limbo > 0 { // another arena's Alloc may be trimming this one
		a.idle.Wait()
	}
	a.mu.Unlock()
	if done {
		return nil
	}
	for i := range a.dir {
		a.dir[i].Store(nil)
	}
	for i := range a.ext {
		a.ext[i].Store(kindFree)
	}
	for _, f := range a.separated { // lockcheck: nothing else runs
		f.Close() //nolint:errcheck // the mappings go below
	}
	if a.acct != nil {
		a.acct.Close()
	}
	return a.unmapBoth()
}

// Base returns the first address of the window.
func (a *Arena) Base() uintptr { return a.base }

// Capacity returns the size of the window in bytes.
func (a *Arena) Capacity() uint64 { return a.capacity }

// Limit returns the largest number of bytes that may be live at one time.
func (a *Arena) Limit() uint64 { return a.limit }

// Delta returns the difference from a window address to the engine's address of the same byte, modulo 2^64.
func (a *Arena) Delta() uintptr { return a.delta }

// Contains reports whether addr lies in the window, allocated or not.
func (a *Arena) Contains(addr uintptr) bool { return uint64(addr-a.base) < a.capacity }

// Stats returns the counters.
func (a *Arena) Stats() Stats {
	a.mu.Lock()
	s := Stats{Live: a.live, Count: a.count, Peak: a.peak, Cached: a.cached, Huge: a.hugeExts << extentShift}
	closed := a.closed
	a.mu.Unlock()
	if !closed {
		s.Resident = a.resident()
	}
	return s
}
