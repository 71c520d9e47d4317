package check

import (
	"fmt"
	"slices"

	"github.com/tidwall/btree"

	"ropeway/internal/check/kinds"
	"ropeway/internal/check/spans"
	"ropeway/internal/core"
	"ropeway/internal/finding"
)

// allocation is memory that the program got from the API.
type allocation struct {
	what     core.ResourceKind
	start    uintptr
	size     uint64  // as the program asked for it
	device   int32   // user id
	phys     int32   // device memory: the driver's number
	alias    uintptr // registered memory: its device address, 0 if it has none
	by       origin
	born     uint64 // order of allocation
	freed    bool
	freedBy  origin
	leaked   bool      // it has been reported
	vanished bool      // registered or pinned memory: the program has freed or unmapped it, which has been reported
	written  spans.Set // device memory: what was written

	pooled  bool        // it is of a pool, and in the order of streams
	freedOn int32       // pooled: the stream in whose order it goes
	freedAt uint64      // pooled: Checker.born when that was submitted
	left    bool        // pooled: and that has run
	before  *allocation // pooled: what was here before

	marred   bool   // pinned: something was written or read beside it, and reported
	verified uint64 // pinned: Checker.calls when the bytes beside it were looked at last
	intact   origin // pinned: where nothing had been written there

	runs  []*pageRun // host memory: pages that can be closed
	asked bool       // runs is what there is
}

func (a *allocation) end() uintptr { return a.start + uintptr(a.size) }

func (a *allocation) kind() string { return kinds.Name(a.what) }

// gone is what happens to an allocation when it is freed.
func (a *allocation) gone() string { return kinds.Gone(a.what) }

// isMemory reports whether a resource has addresses that tasks use.
func isMemory(kind core.ResourceKind) bool { return kinds.IsMemory(kind) }

// ofHost reports whether an allocation is memory of the host that can be closed to it.
func (a *allocation) ofHost() bool {
	return a.what == core.PinnedMemory || a.what == core.RegisteredMemory
}

// handle is anything else that has to be released.
type handle struct {
	r       core.Resource
	by      origin
	born    uint64
	freed   bool
	freedBy origin
	swept   bool // it went with its context
	leaked  bool

	refs  []other // physical memory that was retained: the references that are left, oldest first
	past  []other // and where others were freed, the latest
	took  int     // how often it was retained
	frees int     // how often a reference was freed and others were left
}

// mostNamed is how many references to physical memory a finding names.
const mostNamed = 8

// retain counts one more reference to physical memory.
func (h *handle) retain(by origin) {
	if h.took == 0 {
		h.refs = []other{{"made", h.by}}
	}
	h.took++
	h.refs = append(h.refs, other{"retained", by})
}

// release releases a reference: the oldest, because it is not known which one.
func (h *handle) release(by origin) {
	h.frees++
	h.refs = h.refs[1:]
	h.past = append(h.past, other{"freed", by})
	if len(h.past) > mostNamed {
		h.past = h.past[1:]
	}
}

// were is for example "was 1".
func were(n int) string {
	switch n {
	case 0:
		return "was none"
	case 1:
		return "was 1"
	}
	return fmt.Sprintf("were %d", n)
}

// leakCounted says of physical memory that was retained which reference is left.
func (h *handle) leakCounted(d *draft) {
	d.summary += fmt.Sprintf(": aclrtMemRetainAllocationHandle or an import retained it %s, so it takes %d calls of "+
		"aclrtFreePhysical, and there %s",
		finding.Plural(h.took, "time"), 1+h.took, were(h.frees))
	d.advice = "Call aclrtFreePhysical once for the call that made the handle and once for each " +
		"aclrtMemRetainAllocationHandle."
	left := h.refs[0]
	d.role, d.offence = left.role, left.from
	if left.role != "made" {
		d.others = []other{{"made", h.by}}
	}
	d.others = slices.Concat(d.others, h.refs[1:min(len(h.refs), mostNamed)], h.past)
}

func (h *handle) kind() string { return kinds.Name(h.r.Kind) }

// gone is what happens to it when it is released.
func (h *handle) gone() string { return kinds.Gone(h.r.Kind) }

// String names it for people.
func (h *handle) String() string {
	switch h.r.Kind {
	case core.PoolHandle, core.PhysicalMemory, core.AddressRange:
		return fmt.Sprintf("%s of %s", h.kind(), count(uintptr(h.r.Size)))
	case core.ContextHandle:
		return fmt.Sprintf("a context of device %d", h.r.Device)
	}
	return fmt.Sprintf("%s %d", h.kind(), h.r.Number)
}

// find is the allocation that addr is in, nil if there is none. Bytes past what the program asked for still belong to
// it, up to the next one: a copy that goes too far starts in it.
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

// findGone is the freed allocation that addr was in, nil if there is none.
func (c *Checker) findGone(addr uintptr) *allocation {
	return holding(&c.gone, addr)
}

// holding is the allocation of a list that addr is in, nil if none is.
func holding(list *btree.Map[uintptr, *allocation], addr uintptr) (found *allocation) {
	list.Descend(addr, func(_ uintptr, a *allocation) bool {
		if addr < a.end() {
			found = a
		}
		return false
	})
	return found
}

// mostGone is how many freed allocations and handles are remembered.
const mostGone = 100_000

// remember enters a new allocation. mu is held.
func (c *Checker) remember(a *allocation) {
	c.reused(a.start, a.end())
	delete(c.unregistered, a.start)
	if a.what == core.RegisteredMemory && c.find(a.start) != nil {
		c.inner[a.start] = a // it is pinned memory as well, and judged as that
		return
	}
	for old := c.find(a.end() - 1); old != nil && old.what == core.ImportedMemory; old = c.find(a.end() - 1) {
		c.forget(old, origin{}) // it went with its device
	}
	c.near = [4]*allocation{}
	c.memory.Set(a.start, a)
	c.setPages(a, true)
}

// reused forgets freed allocations of which addresses in [lo, hi) are used again. mu is held.
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

// wasFreed remembers a freed allocation by its start. mu is held.
func (c *Checker) wasFreed(a *allocation) {
	if c.gone.Len() >= mostGone {
		c.gone.PopMin()
	}
	c.gone.Set(a.start, a)
}

// live is the allocation or registration that starts at addr, nil if there is none. mu is held.
func (c *Checker) live(kind core.ResourceKind, addr uintptr) *allocation {
	if a := c.inner[addr]; a != nil && kind == core.RegisteredMemory {
		return a
	}
	a, _ := c.memory.Get(addr)
	return a
}

// forget takes an allocation out of the world. mu is held.
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
		return // its addresses are the program's own, and good for anything
	}
	if !a.pooled || a.freedAt == 0 {
		c.shadow.Forget(a.start, a.end())
		c.paged.Forget(a.start, a.end())
	}
	c.wasFreed(a)
}
