package check

import (
	"fmt"
	"slices"

	"github.com/tidwall/btree"

	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/finding"
)

// ledger has what exists and who made it: allocations, handles, models, binaries, and the last ones of each that are
// gone. It also judges calls that the core refuses by what they name. Checker.mu guards it.
type ledger struct {
	report *report
	under  driver.Driver // immutable
	born   uint64        // number of allocations, handles and frees of pool memory so far
	frees  uint64        // number of allocations freed so far

	memory       byAddress      // live allocations by address
	near         [4]*allocation // the last results of find
	nearest      int
	gone         byAddress               // freed allocations, until the address is used again
	unregistered map[uintptr]*allocation // by their start
	inner        map[uintptr]*allocation // registrations of pinned memory, by their start
	aliases      byAddress               // registrations by their device address

	handles    map[uintptr]*handle
	models     map[uint32]*model // models and captures by their ids
	goneModels []*model          // the last ones destroyed
	kernels    map[string]*part  // by their names
	modules    map[driver.Module]*loaded
}

func newLedger(under driver.Driver, r *report) *ledger {
	return &ledger{report: r, under: under, handles: map[uintptr]*handle{}, models: map[uint32]*model{},
		kernels: map[string]*part{}, modules: map[driver.Module]*loaded{}, unregistered: map[uintptr]*allocation{},
		inner: map[uintptr]*allocation{}}
}

// allocation is memory that the program got from the API.
type allocation struct {
	what     core.ResourceKind
	start    uintptr
	size     uint64  // size that the program asked for
	device   int32   // user id
	phys     int32   // device memory: the driver's number
	alias    uintptr // registered memory: its device address, 0 if it has none
	by       origin
	born     uint64 // order of allocation
	freed    bool
	freedBy  origin
	leaked   bool    // its leak has been reported
	vanished bool    // registered or pinned memory: the program has freed or unmapped it, which has been reported
	written  spanSet // device memory: ranges that were written

	pool    uintptr     // pooled: the handle of its pool
	orphan  *origin     // pooled: where its pool was destroyed, if that was not reported; else nil
	pooled  bool        // it belongs to a pool, and comes and goes in the order of streams
	freedOn int32       // pooled: the stream that frees it
	freedAt uint64      // pooled: ledger.born at the submission of the free
	left    bool        // pooled: the free has run
	before  *allocation // pooled: the previous allocation at its address

	marred   bool   // pinned: an access beside it has been reported
	verified uint64 // pinned: number of the call for which the bytes beside it were last compared
	intact   origin // pinned: the last call that found the bytes beside it unchanged

	user user

	runs []*pageRun // host memory: pages that can be closed; nil: not asked for yet
}

func (a *allocation) end() uintptr { return a.start + uintptr(a.size) }

func (a *allocation) kind() string { return kinds[a.what].name }

// gone returns the past participle for the release of an allocation, for people.
func (a *allocation) gone() string { return kinds[a.what].gone }

// ofHost reports whether an allocation is host memory that can be closed to the host.
func (a *allocation) ofHost() bool {
	return a.what == core.PinnedMemory || a.what == core.RegisteredMemory
}

// handle is a resource other than memory that has to be released.
type handle struct {
	r       core.Resource
	by      origin
	born    uint64
	freed   bool
	freedBy origin
	swept   bool // released with its context
	leaked  bool

	refs []other // retained physical memory: live references, oldest first
	past []other // the last releases of references
	took int     // number of times it was retained
}

// mostNamed limits the references to physical memory that a finding names.
const mostNamed = 8

// retain adds a reference to physical memory.
func (h *handle) retain(by origin) {
	if h.took == 0 {
		h.refs = []other{{"made", h.by}}
	}
	h.took++
	h.refs = append(h.refs, other{"retained", by})
}

// release drops a reference: the oldest, because the caller does not say which one.
func (h *handle) release(by origin) {
	h.refs = h.refs[1:]
	h.past = append(h.past, other{"freed", by})
	if len(h.past) > mostNamed {
		h.past = h.past[1:]
	}
}

// were returns for example "was 1".
func were(n int) string {
	switch n {
	case 0:
		return "was none"
	case 1:
		return "was 1"
	}
	return fmt.Sprintf("were %d", n)
}

// leakCounted adds to a leak of retained physical memory which references are left.
func (h *handle) leakCounted(d *draft) {
	d.summary += fmt.Sprintf(": aclrtMemRetainAllocationHandle or an import retained it %s, so it takes %d calls of "+
		"aclrtFreePhysical, and there %s",
		finding.Plural(h.took, "time"), 1+h.took, were(1+h.took-len(h.refs)))
	d.advice = "Call aclrtFreePhysical once for the call that made the handle and once for each " +
		"aclrtMemRetainAllocationHandle."
	d.inGo = "Call Physical.Close once."
	left := h.refs[0]
	d.role, d.offence = left.role, left.from
	if left.role != "made" {
		d.others = []other{{"made", h.by}}
	}
	d.others = slices.Concat(d.others, h.refs[1:min(len(h.refs), mostNamed)], h.past)
}

func (h *handle) kind() string { return kinds[h.r.Kind].name }

// gone returns the past participle for the release of a handle, for people.
func (h *handle) gone() string { return kinds[h.r.Kind].gone }

// String names a handle for people.
func (h *handle) String() string {
	switch h.r.Kind {
	case core.PoolHandle, core.PhysicalMemory, core.AddressRange:
		return fmt.Sprintf("%s of %s", h.kind(), count(uintptr(h.r.Size)))
	case core.ContextHandle:
		return fmt.Sprintf("a context of device %d", h.r.Device)
	case core.BinaryHandle:
		return "a binary"
	case core.FunctionHandle:
		return "a function of a binary"
	}
	return fmt.Sprintf("%s %d", h.kind(), h.r.Number)
}

// find returns the allocation that addr is in, or nil.
func (l *ledger) find(addr uintptr) *allocation {
	for _, a := range l.near {
		if a != nil && addr-a.start < uintptr(a.size) {
			return a
		}
	}
	_, found := holding(&l.memory, addr)
	if found != nil {
		l.near[l.nearest], l.nearest = found, (l.nearest+1)%len(l.near)
	}
	return found
}

// findGone returns the freed allocation that addr was in, or nil.
func (l *ledger) findGone(addr uintptr) *allocation {
	_, found := holding(&l.gone, addr)
	return found
}

// byAddress has allocations by address.
type byAddress = btree.Map[uintptr, *allocation]

// upTo returns the last allocation of a list up to addr, and its address there; nil if there is none.
func upTo(list *byAddress, addr uintptr) (at uintptr, last *allocation) {
	list.Descend(addr, func(start uintptr, a *allocation) bool {
		at, last = start, a
		return false
	})
	return at, last
}

// atOrAfter returns the first allocation of a list that starts at addr or above, or nil.
func atOrAfter(list *byAddress, addr uintptr) (first *allocation) {
	list.Ascend(addr, func(_ uintptr, a *allocation) bool {
		first = a
		return false
	})
	return first
}

// holding returns the allocation of a list that addr is in, and its address there; nil if there is none.
func holding(list *byAddress, addr uintptr) (at uintptr, found *allocation) {
	if at, found = upTo(list, addr); found != nil && addr-at < uintptr(found.size) {
		return at, found
	}
	return 0, nil
}

// mostGone limits the freed allocations and handles that are kept.
const mostGone = 100_000

// add enters a new allocation. It calls displaced with imported memory of a closed device that ends in it. Checker.mu
// is held.
func (l *ledger) add(a *allocation, displaced func(*allocation)) {
	l.reused(a.start, a.end())
	delete(l.unregistered, a.start)
	if a.what == core.RegisteredMemory && l.find(a.start) != nil {
		l.inner[a.start] = a // it is also pinned memory, and judged as such
		return
	}
	for old := l.find(a.end() - 1); old != nil && old.what == core.ImportedMemory; old = l.find(a.end() - 1) {
		displaced(old)
	}
	l.near = [4]*allocation{}
	l.memory.Set(a.start, a)
}

// reused forgets freed allocations with addresses in [lo, hi), which are used again. Checker.mu is held.
func (l *ledger) reused(lo, hi uintptr) {
	for old := l.findGone(lo); old != nil; old = l.findGone(lo) {
		l.gone.Delete(old.start)
	}
	for old := atOrAfter(&l.gone, lo); old != nil && old.start < hi; old = atOrAfter(&l.gone, lo) {
		l.gone.Delete(old.start)
	}
}

// wasFreed keeps a freed allocation by its start. Checker.mu is held.
func (l *ledger) wasFreed(a *allocation) {
	if l.gone.Len() >= mostGone {
		l.gone.PopMin()
	}
	l.gone.Set(a.start, a)
}

// live returns the allocation or registration that starts at addr, or nil. Checker.mu is held.
func (l *ledger) live(kind core.ResourceKind, addr uintptr) *allocation {
	if a := l.inner[addr]; a != nil && kind == core.RegisteredMemory {
		return a
	}
	a, _ := l.memory.Get(addr)
	return a
}

// remove moves an allocation to the freed ones. It returns false for a registration of pinned memory. Checker.mu is
// held.
func (l *ledger) remove(a *allocation, by origin) (own bool) {
	a.freed, a.freedBy = true, by
	l.frees++
	if a.alias != 0 { // it is kept like the address of freed memory
		l.aliases.Delete(a.alias)
		stale := *a
		stale.start, stale.alias = a.alias, 0
		l.wasFreed(&stale)
	}
	if own = l.inner[a.start] != a; own {
		l.memory.Delete(a.start)
		l.near = [4]*allocation{}
	} else {
		delete(l.inner, a.start)
	}
	if a.what != core.RegisteredMemory {
		l.wasFreed(a)
		return own
	}
	if len(l.unregistered) >= mostGone {
		clear(l.unregistered)
	}
	l.unregistered[a.start] = a // the addresses still belong to the program, which may use them
	return own
}
