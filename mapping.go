package ropeway

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// Range is a range of addresses without memory of its own. [Memory] is mapped into it piece by piece, so a buffer can grow without
// moving, and pieces of it can be replaced. To a copy, pieces that touch are one buffer; touching what is not mapped is an error.
type Range struct {
	mem *Buffer

	mu     sync.Mutex
	mapped map[int]*Memory // guarded by mu; by offset
}

// Memory is device memory without an address.
type Memory struct {
	d *Device
	h core.Handle
	n int

	mu     sync.Mutex
	shared uint64 // guarded by mu; the shareable handle, 0 if there is none yet
}

// physical is what Go's memory is like: device memory of large pages.
func (d *Device) physical() abi.PhysicalMemProp {
	return abi.PhysicalMemProp{MemAttr: abi.MemAttrHBMMemHuge, Location: abi.MemLocation{ID: uint32(d.id), Type: abi.MemLocationTypeDevice}}
}

// MapUnit is what lengths and offsets of mapped memory are multiples of.
func (d *Device) MapUnit() (int, error) {
	prop := d.physical()
	var n uint64
	err := d.t.MemGetAllocationGranularity(&prop, abi.MemAllocGranularityMinimum, &n)
	return int(n), d.answer(err)
}

// Reserve takes n bytes of addresses, a multiple of [Device.MapUnit]. They cost next to nothing: reserve what may ever be needed.
func (d *Device) Reserve(n int) (*Range, error) {
	var p core.Addr
	if err := d.t.ReserveMemAddress(&p, size(n), 0, 0, 0); err != nil {
		return nil, d.answer(err)
	}
	return &Range{mem: &Buffer{d: d, addr: p, n: n, free: (*core.Thread).ReleaseMemAddress, device: true}, mapped: map[int]*Memory{}}, nil
}

// NewMemory allocates n bytes, a multiple of [Device.MapUnit].
func (d *Device) NewMemory(n int) (*Memory, error) {
	m := &Memory{d: d, n: n}
	prop := d.physical()
	if err := d.t.MallocPhysical(&m.h, size(n), &prop, 0); err != nil {
		return nil, d.answer(err)
	}
	return m, nil
}

// Len is how many bytes the memory has.
func (m *Memory) Len() int { return m.n }

// Free gives the memory back; where it is mapped it stays until it is unmapped.
func (m *Memory) Free() error { return m.d.answer(m.d.t.FreePhysical(m.h)) }

// Share lets other processes have the memory, by [Device.ImportMemory], as [Buffer.Share] does with memory that has an address. Sharing again gives the
// same key and lets further processes have it; whether there is a list is said by the first call. It ends when the memory is freed and nowhere
// mapped. The key is the shareable handle of C and Python, in hexadecimal.
func (m *Memory) Share(with ...int) (Key, error) {
	const api = "aclrtMemExportToShareableHandle"
	if m.d.t.PhysicalSize(m.h) == 0 {
		return "", m.d.r.refuse(api, "handle", "the memory was freed", core.Gone, Ptr(m.h))
	}
	list, err := pids("aclrtMemSetPidToShareableHandle", with)
	if err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.shared == 0 {
		flags := uint64(0)
		if len(list) == 0 {
			flags = 1 // no list
		}
		if err := m.d.t.MemExportToShareableHandle(m.h, abi.MemHandleTypeNone, flags, &m.shared); err != nil {
			return "", m.d.answer(err)
		}
	}
	if len(list) > 0 {
		if err := m.d.t.MemSetPidToShareableHandle(m.shared, first(list), uint64(len(list))); err != nil {
			return "", m.d.answer(err)
		}
	}
	return Key(strconv.FormatUint(m.shared, 16)), nil
}

// ImportMemory opens the memory of another process that the key names, to be mapped here. Nothing is copied. Free lets go of it; it stays good
// whatever the other process does.
func (d *Device) ImportMemory(k Key) (*Memory, error) {
	number, err := strconv.ParseUint(string(k), 16, 64)
	if err != nil {
		return nil, misuse("aclrtMemImportFromShareableHandle", "shareableHandle", "is no key of memory")
	}
	m := &Memory{d: d}
	if err := d.t.MemImportFromShareableHandle(number, int32(d.id), &m.h); err != nil {
		return nil, d.answer(err)
	}
	m.n = int(d.t.PhysicalSize(m.h))
	return m, nil
}

// Len is how many bytes the range has, mapped or not.
func (r *Range) Len() int { return r.mem.Len() }

// Ptr is the address of the range.
func (r *Range) Ptr() Ptr { return r.mem.Ptr() }

// At is n bytes from offset off on. What is not mapped is an error when it is used.
func (r *Range) At(off, n int) Span { return r.mem.At(off, n) }

// Map puts memory behind the addresses from offset off on. Work on other parts of the range is not disturbed.
func (r *Range) Map(off int, m *Memory) error {
	const api = "aclrtMapMem"
	d := r.mem.d
	switch at := r.At(off, m.n); {
	case m.d.r != d.r:
		return misuse(api, "handle", otherRuntime)
	case at.problem(d.r) != "":
		return filled(d.r, api, "virPtr", at)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := d.t.MapMem(r.mem.addr+Ptr(off), uint64(m.n), 0, m.h, 0); err != nil {
		return d.answer(err)
	}
	r.mapped[off] = m
	return nil
}

// Unmap takes away what was mapped at offset off. It does not wait for work that uses it.
func (r *Range) Unmap(off int) error {
	const api = "aclrtUnmapMem"
	d := r.mem.d
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mapped[off] == nil {
		return misuse(api, "virPtr", fmt.Sprintf("nothing is mapped from offset %d on", off))
	}
	if err := d.t.UnmapMem(r.mem.addr + Ptr(off)); err != nil {
		return d.answer(err)
	}
	delete(r.mapped, off)
	return nil
}

// Free unmaps what is mapped and gives the addresses back. It does not wait for work that uses them.
func (r *Range) Free() error {
	for _, off := range r.offsets() {
		if err := r.Unmap(off); err != nil {
			return err
		}
	}
	return r.mem.Free()
}

// offsets are where something is mapped.
func (r *Range) offsets() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.mapped))
}
