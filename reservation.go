package ropeway

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
)

// Reservation is a range of addresses without memory of its own. [Physical] is mapped into it piece by piece, so a
// buffer can grow without moving, and pieces of it can be replaced. To a copy, adjacent pieces are one buffer;
// accessing unmapped addresses is an error.
type Reservation struct {
	mem *Buffer

	mu     sync.Mutex
	mapped map[int]*Physical // guarded by mu; by offset
}

// Physical is device memory without an address.
type Physical struct {
	d *Device
	h core.Handle
	n int

	mu     sync.Mutex
	shared uint64        // guarded by mu; the shareable handle, or 0
	fabric *FabricHandle // guarded by mu; nil if it was not created
}

// physical returns the properties of memory for the Go API: device memory in large pages.
func (d *Device) physical() abi.PhysicalMemProp {
	return abi.PhysicalMemProp{MemAttr: abi.MemAttrHBMMemHuge, Location: d.location()}
}

// MapUnit returns the granularity of lengths and offsets of mapped memory.
func (d *Device) MapUnit() (int, error) {
	prop := d.physical()
	var n uint64
	err := memory.MemGetAllocationGranularity(d.t, &prop, abi.MemAllocGranularityMinimum, &n)
	return int(n), d.result(err)
}

// Reserve reserves n bytes of addresses, a multiple of [Device.MapUnit]. Addresses cost almost nothing: reserve as
// many as the buffer may ever need.
func (d *Device) Reserve(n int) (*Reservation, error) {
	var p core.Addr
	if err := memory.ReserveMemAddress(d.t, &p, size(n), 0, 0, 0); err != nil {
		return nil, d.result(err)
	}
	mem := &Buffer{d: d, addr: p, n: n, free: memory.ReleaseMemAddress, device: true}
	return &Reservation{mem: mem, mapped: map[int]*Physical{}}, nil
}

// AllocPhysical allocates n bytes, a multiple of [Device.MapUnit].
func (d *Device) AllocPhysical(n int) (*Physical, error) {
	m := &Physical{d: d, n: n}
	prop := d.physical()
	if err := memory.MallocPhysical(d.t, &m.h, size(n), &prop, 0); err != nil {
		return nil, d.result(err)
	}
	return m, nil
}

// Len returns the size of the memory in bytes.
func (m *Physical) Len() int { return m.n }

// Close frees the memory; mappings keep it until they are removed.
func (m *Physical) Close() error { return m.d.result(memory.FreePhysical(m.d.t, m.h)) }

// Share lets other processes open the memory, by [Device.ImportPhysical], as [Buffer.Share] does for memory with an
// address. Further calls return the same key and allow further processes; the first call determines whether there is
// a list of processes. Sharing ends when the memory is closed and not mapped. The key is the shareable handle of C
// and Python, in hexadecimal.
func (m *Physical) Share(with ...int) (Key, error) {
	const api = "aclrtMemExportToShareableHandle"
	if memory.PhysicalSize(m.d.t, m.h) == 0 {
		return "", m.d.r.refuse(api, "handle", "the memory was closed", core.Gone, core.Addr(m.h))
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
		if err := memory.MemExportToShareableHandle(m.d.t, m.h, abi.MemHandleTypeNone, flags, &m.shared); err != nil {
			return "", m.d.result(err)
		}
	}
	if len(list) > 0 {
		if err := memory.MemSetPidToShareableHandle(m.d.t, m.shared, first(list), uint64(len(list))); err != nil {
			return "", m.d.result(err)
		}
	}
	return Key(strconv.FormatUint(m.shared, 16)), nil
}

// ImportPhysical opens memory of another process by its key, to be mapped here. Nothing is copied. The memory stays
// valid until Close, whatever the other process does.
func (d *Device) ImportPhysical(ctx context.Context, k Key) (*Physical, error) {
	number, err := strconv.ParseUint(string(k), 16, 64)
	if err != nil {
		return nil, misuse("aclrtMemImportFromShareableHandle", "shareableHandle", "is no key of memory")
	}
	return importing(ctx, func() (*Physical, error) {
		m := &Physical{d: d}
		if err := memory.MemImportFromShareableHandle(d.t, number, int32(d.id), &m.h); err != nil {
			return nil, d.result(err)
		}
		m.n = int(memory.PhysicalSize(d.t, m.h))
		return m, nil
	})
}

// Len returns the size of the range in bytes, mapped or not.
func (r *Reservation) Len() int { return r.mem.Len() }

// Ptr returns the address of the range.
func (r *Reservation) Ptr() Ptr { return r.mem.Ptr() }

// Range returns the n bytes at offset off. Using unmapped bytes is an error.
func (r *Reservation) Range(off, n int) Span { return r.mem.Range(off, n) }

// Map maps memory at offset off. Work on other parts of the range is not affected.
func (r *Reservation) Map(off int, m *Physical) error {
	const api = "aclrtMapMem"
	d := r.mem.d
	switch at := r.Range(off, m.n); {
	case m.d.r != d.r:
		return misuse(api, "handle", otherRuntime)
	case at.problem(d.r) != "":
		return filled(d.r, api, "virPtr", at)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := memory.MapMem(d.t, r.mem.addr+core.Addr(off), uint64(m.n), 0, m.h, 0); err != nil {
		return d.result(err)
	}
	r.mapped[off] = m
	return nil
}

// Unmap removes the mapping at offset off. It does not wait for work that uses it.
func (r *Reservation) Unmap(off int) error {
	const api = "aclrtUnmapMem"
	d := r.mem.d
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mapped[off] == nil {
		return misuse(api, "virPtr", fmt.Sprintf("nothing is mapped from offset %d on", off))
	}
	if err := memory.UnmapMem(d.t, r.mem.addr+core.Addr(off)); err != nil {
		return d.result(err)
	}
	delete(r.mapped, off)
	return nil
}

// Close removes all mappings and releases the addresses. It does not wait for work that uses them.
func (r *Reservation) Close() error {
	for _, off := range r.offsets() {
		if err := r.Unmap(off); err != nil {
			return err
		}
	}
	return r.mem.Close()
}

// offsets returns the offsets of the mappings.
func (r *Reservation) offsets() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.mapped))
}
