package check

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/btree"

	"ropeway/internal/core"
	"ropeway/internal/driver"
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

	user user // the program whose tasks alone have touched it

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

// Registered memory that is mapped has two addresses: the program's own, and an alias for devices. The checker keeps
// memory under the first, and converts every address of a task or of the program with canonical before it judges it.

// nameAlias adds the device address of a registration, if it has one. Checker.mu is held.
func (l *ledger) nameAlias(a *allocation) {
	if alias, err := l.under.Mapped(a.start); err == nil && alias != a.start {
		a.alias = alias
		l.reused(alias, alias+uintptr(a.size))
		l.aliases.Set(alias, a)
	}
}

// aliased returns the registration that has addr as a device address, or nil. Checker.mu is held.
func (l *ledger) aliased(addr uintptr) *allocation {
	_, a := holding(&l.aliases, addr)
	return a
}

// canonical returns the program's own address for addr. Checker.mu is held.
func (l *ledger) canonical(addr uintptr) uintptr {
	if a := l.aliased(addr); a != nil {
		return addr - a.alias + a.start
	}
	return addr
}

// manyRows is the number of rows from which a 2-D copy counts as touching all bytes from its first to its last row.
const manyRows = 1 << 16

// touches calls f with the canonical range of every access of op. Checker.mu is held.
func (l *ledger) touches(op *driver.Op, f func(lo, hi uintptr, write bool) bool) {
	if l.aliases.Len() == 0 {
		op.Ranges(manyRows, f)
		return
	}
	op.Ranges(manyRows, func(lo, hi uintptr, write bool) bool {
		at := l.canonical(lo)
		return f(at, at+(hi-lo), write)
	})
}

// onPage returns the allocation that addr is in, or else one with bytes on the same page, or nil. Checker.mu is held.
func (l *ledger) onPage(addr uintptr) *allocation {
	if _, a := upTo(&l.memory, addr); a != nil && addr < pageEnd(a.end()) {
		return a
	}
	if a := atOrAfter(&l.memory, addr); a != nil && pageFloor(a.start) <= addr {
		return a
	}
	return nil
}

// peek returns a copy of device memory as it is now, nil if it cannot be read.
func (l *ledger) peek(at uintptr, n uint64) []byte {
	b := make([]byte, n)
	if l.under.Run(driver.Op{Kind: driver.OpCopy, Dst: core.AddrOf(b), Src: at, N: n}) != nil {
		return nil
	}
	return b
}

// touchesAll reports whether list is not empty and op makes all accesses in it. Checker.mu is held.
func (l *ledger) touchesAll(op *driver.Op, list []touched) bool {
	if !op.Kind.TouchesMemory() {
		return false
	}
	return len(list) > 0 && !slices.ContainsFunc(list, func(s touched) bool {
		missing := true
		l.touches(op, func(lo, hi uintptr, write bool) bool {
			missing = lo != s.lo || hi != s.hi || write != s.write
			return missing
		})
		return missing
	})
}

// reachOf returns the end of an allocation; for a mapping, the end of the contiguous mappings after it, as far as hi.
func (l *ledger) reachOf(a *allocation, hi uintptr) uintptr {
	end := a.end()
	for next := a; end < hi && next != nil && next.what == core.MappedMemory; next = l.find(end) {
		end = next.end()
	}
	return end
}

// rounded returns the allocation whose rounding has addr, just after its end, or nil. Memory after an allocation may
// also be another one, of the program or of the core. Checker.mu is held.
func (l *ledger) rounded(addr uintptr) *allocation {
	a, _ := l.memory.Get(l.under.Describe(addr).Start)
	if a == nil || a.what == core.RegisteredMemory {
		return nil
	}
	return a
}

// mostWords limits the words of a kernel's arguments that are read.
const mostWords = 8192

// given returns the current words of a launch's arguments. Checker.mu is held.
func (l *ledger) given(launch *driver.Launch) (words []uintptr) {
	v := l.under.Caps().View
	if v == nil || launch.Size == 0 {
		return nil
	}
	args, err := v.View(launch.Args, min(launch.Size, 8*mostWords))
	if err != nil {
		return nil // the kernel will fail and report it
	}
	for ; len(args) >= 8; args = args[8:] {
		words = append(words, l.canonical(uintptr(binary.LittleEndian.Uint64(args))))
	}
	return words
}

// kernelOf returns the name of the kernel that op launches, "" if it launches none.
func kernelOf(op *driver.Op) string {
	if op.Launch == nil {
		return ""
	}
	if k, ok := op.Launch.Owner().(core.KernelTask); ok {
		return k.KernelName()
	}
	return ""
}

// modelOf returns the model with an id, even if it was destroyed recently; nil if there is none. Checker.mu is held.
func (l *ledger) modelOf(id uint32) *model {
	if m := l.models[id]; m != nil {
		return m
	}
	if i := slices.IndexFunc(l.goneModels, func(m *model) bool { return m.id == id }); i >= 0 {
		return l.goneModels[i]
	}
	return nil
}

// spansOf returns the accesses of an operation of a model; op may be nil. Checker.mu is held.
func (l *ledger) spansOf(op *driver.Op) (list []touched) {
	if op == nil || !op.Kind.TouchesMemory() {
		return nil
	}
	l.touches(op, func(lo, hi uintptr, write bool) bool {
		if lo < hi {
			list = append(list, touched{lo, hi, write, l.find(lo)})
		}
		return true
	})
	return list
}

// isStale reports whether memory that a task names was freed after the capture. Memory mapped or registered again at
// the same address is not stale.
func (l *ledger) isStale(s touched) bool {
	a := s.memory
	if a == nil || !a.freed && !a.left {
		return false
	}
	now := l.find(s.lo)
	return now == nil || a.what != core.MappedMemory && a.what != core.RegisteredMemory
}

// judgeStale reports memory that was freed after a model captured it, and returns whether there is any. Checker.mu is
// held.
func (l *ledger) judgeStale(from origin, m *model) (found bool) {
	for _, sub := range m.subs {
		found = l.judgeStale(from, sub) || found
	}
	for i := range m.tasks {
		t := &m.tasks[i]
		for _, s := range t.spans {
			if !l.isStale(s) {
				continue
			}
			found = true
			what := "and is no longer there"
			if now := l.find(s.lo); now != nil {
				what = "and another allocation has its address now"
			}
			l.report.add(draft{
				rule: "stale-model", role: "called", offence: from, others: []other{{"captured", t.from}}, lo: s.lo,
				hi: min(s.hi, s.memory.end()), memory: s.memory,
				summary: fmt.Sprintf("model %d is executed, and task %d of it %s %s of %s memory that was %s after "+
					"the capture, %s", m.id, i, does(s.write), count(s.hi-s.lo), s.memory.kind(), s.memory.gone(),
					what),
			})
		}
	}
	return found
}

// partOf returns the part for a kernel and a model. Checker.mu is held.
func (l *ledger) partOf(kernel string, m *model) *part {
	if kernel == "" && m == nil {
		return nil
	}
	parts := l.kernels
	if m != nil {
		parts = m.parts
	}
	p := parts[kernel]
	if p == nil {
		p = &part{kernel: kernel, model: m}
		parts[kernel] = p
	}
	return p
}

// reserved returns the reserved address range that addr is in, or nil. Checker.mu is held.
func (l *ledger) reserved(addr uintptr) *handle {
	for _, h := range l.handles {
		if h.r.Kind == core.AddressRange && !h.freed && addr-h.r.Name < uintptr(h.r.Size) {
			return h
		}
	}
	return nil
}

// module returns the record of a binary, and makes it at first. Checker.mu is held.
func (l *ledger) module(of driver.Module) *loaded {
	if l.modules[of] == nil {
		l.modules[of] = new(loaded)
	}
	return l.modules[of]
}

// judgeForeign reports pinned memory that is passed to the allocator of the C library, which does not know it.
// Checker.mu is held.
func (l *ledger) judgeForeign(from origin, a *allocation, at uintptr, how Way) {
	name, _, _ := strings.Cut(how.Call, "(")
	l.report.add(draft{
		rule: "invalid-free", role: "called", offence: from, lo: at, hi: a.end(), memory: a,
		summary: fmt.Sprintf("%s: %#x is pinned memory, which the C library did not allocate; aclrtFreeHost frees it",
			name, at),
	})
	a.vanished = true // accesses of the C library beside it are not reported again
}

// registeredIn returns the registered memory with bytes in [lo, hi). Checker.mu is held.
func (l *ledger) registeredIn(lo, hi uintptr) (list []*allocation) {
	take := func(_ uintptr, a *allocation) bool {
		if a.start >= hi {
			return false
		}
		if a.what == core.RegisteredMemory && lo < a.end() {
			list = append(list, a)
		}
		return true
	}
	if first := l.find(lo); first != nil && first.start < lo {
		take(0, first)
	}
	l.memory.Ascend(lo, take)
	return list
}

// trimHandles forgets released handles if there are too many. Checker.mu is held.
func (l *ledger) trimHandles() {
	if len(l.handles) < mostGone {
		return
	}
	for name, h := range l.handles {
		if h.freed {
			delete(l.handles, name)
		}
	}
}
