package check

import (
	"fmt"
	"slices"

	"github.com/tidwall/btree"

	"ropeway/internal/core"
	"ropeway/internal/finding"
)

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
	freedAt uint64      // pooled: Checker.born at the submission of the free
	left    bool        // pooled: the free has run
	before  *allocation // pooled: the previous allocation at its address

	marred   bool   // pinned: an access beside it has been reported
	verified uint64 // pinned: Checker.calls when the bytes beside it were last compared
	intact   origin // pinned: the last call that found the bytes beside it unchanged

	user user

	runs []*pageRun // host memory: pages that can be closed; nil: not asked for yet
}

func (a *allocation) end() uintptr { return a.start + uintptr(a.size) }

func (a *allocation) kind() string { return kindName(a.what) }

// gone returns the past participle for the release of an allocation, for people.
func (a *allocation) gone() string { return kindGone(a.what) }

// isMemory reports whether a resource has addresses that tasks use.
func isMemory(kind core.ResourceKind) bool { return isMemoryKind(kind) }

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

	refs  []other // retained physical memory: live references, oldest first
	past  []other // the last releases of references
	took  int     // number of times it was retained
	frees int     // number of references freed while others were left
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
	h.frees++
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
		finding.Plural(h.took, "time"), 1+h.took, were(h.frees))
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

func (h *handle) kind() string { return kindName(h.r.Kind) }

// gone returns the past participle for the release of a handle, for people.
func (h *handle) gone() string { return kindGone(h.r.Kind) }

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
func (c *Checker) find(addr uintptr) *allocation {
	for _, a := range c.near {
		if a != nil && addr-a.start < uintptr(a.size) {
			return a
		}
	}
	found := holding(&c.memory, addr)
	if found != nil {
		c.near[c.nearest], c.nearest = found, (c.nearest+1)%len(c.near)
	}
	return found
}

// findGone returns the freed allocation that addr was in, or nil.
func (c *Checker) findGone(addr uintptr) *allocation {
	return holding(&c.gone, addr)
}

// holding returns the allocation of a list that addr is in, or nil.
func holding(list *btree.Map[uintptr, *allocation], addr uintptr) (found *allocation) {
	list.Descend(addr, func(_ uintptr, a *allocation) bool {
		if addr < a.end() {
			found = a
		}
		return false
	})
	return found
}

// mostGone limits the freed allocations and handles that are kept.
const mostGone = 100_000

// remember adds a new allocation. mu is held.
func (c *Checker) remember(a *allocation) {
	c.reused(a.start, a.end())
	delete(c.unregistered, a.start)
	if a.what == core.RegisteredMemory && c.find(a.start) != nil {
		c.inner[a.start] = a // it is also pinned memory, and judged as such
		return
	}
	for old := c.find(a.end() - 1); old != nil && old.what == core.ImportedMemory; old = c.find(a.end() - 1) {
		c.forget(old, origin{}) // its device was closed
	}
	c.near = [4]*allocation{}
	c.memory.Set(a.start, a)
	c.setPages(a, true)
}

// reused forgets freed allocations with addresses in [lo, hi), which are used again. mu is held.
func (c *Checker) reused(lo, hi uintptr) {
	for {
		old := c.findGone(lo)
		if old == nil {
			break
		}
		c.gone.Delete(old.start)
	}
	var within []uintptr
	c.gone.Ascend(lo, func(at uintptr, _ *allocation) bool {
		if at >= hi {
			return false
		}
		within = append(within, at)
		return true
	})
	for _, at := range within {
		c.gone.Delete(at)
	}
}

// wasFreed keeps a freed allocation by its start. mu is held.
func (c *Checker) wasFreed(a *allocation) {
	if c.gone.Len() >= mostGone {
		c.gone.PopMin()
	}
	c.gone.Set(a.start, a)
}

// live returns the allocation or registration that starts at addr, or nil. mu is held.
func (c *Checker) live(kind core.ResourceKind, addr uintptr) *allocation {
	if a := c.inner[addr]; a != nil && kind == core.RegisteredMemory {
		return a
	}
	a, _ := c.memory.Get(addr)
	return a
}

// forget moves an allocation to the freed ones. mu is held.
func (c *Checker) forget(a *allocation, by origin) {
	a.freed, a.freedBy = true, by
	c.frees++
	c.dropAlias(a)
	if c.inner[a.start] == a {
		delete(c.inner, a.start)
		c.unregistered[a.start] = a
		return
	}
	c.memory.Delete(a.start)
	c.near = [4]*allocation{}
	c.setPages(a, false)
	c.dropPages(a)
	if a.what == core.RegisteredMemory {
		if len(c.unregistered) >= mostGone {
			clear(c.unregistered)
		}
		c.unregistered[a.start] = a
		return // the addresses still belong to the program, which may use them
	}
	if !a.pooled || a.freedAt == 0 {
		c.shadow.Forget(a.start, a.end())
		c.paged.Forget(a.start, a.end())
	}
	c.wasFreed(a)
}
