package ropeway

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// AllocManaged allocates n bytes of memory that has one address for the host and all devices: [Buffer.Bytes] is the memory itself, and copies use it like any
// other. The host must not touch it while queued work does. Only some products have it (A2, A3).
func (d *Device) AllocManaged(n int) (*Buffer, error) {
	var p core.Addr
	if err := d.t.MemAllocManaged(&p, size(n), abi.MemAttachGlobal); err != nil {
		return nil, d.answer(err)
	}
	return &Buffer{d: d, addr: p, n: n, free: (*core.Thread).Free, host: bytesAt(p, n), goes: true}, nil
}

// Advice is what a program knows about how managed memory will be used. It changes how fast things are, never what they do.
type Advice = abi.MemManagedAdviseType

// Advice.
const (
	ReadMostly    = abi.MemAdviseSetReadMostly          // it is read much and written little
	NotReadMostly = abi.MemAdviseUnsetReadMostly        //
	Prefer        = abi.MemAdviseSetPreferredLocation   // it should be at the given place
	NotPrefer     = abi.MemAdviseUnsetPreferredLocation //
	AccessedBy    = abi.MemAdviseSetAccessedBy          // the given device will use it
	NotAccessedBy = abi.MemAdviseUnsetAccessedBy        //
)

// place is a device, or the host for nil.
func place(d *Device) abi.MemManagedLocation {
	if d == nil {
		return abi.MemManagedLocation{Type: abi.MemManagedLocationTypeHost}
	}
	return abi.MemManagedLocation{Type: abi.MemManagedLocationTypeDevice, ID: int32(d.id)}
}

// Advise tells how managed memory will be used, at a device or, for nil, the host.
func (d *Device) Advise(mem Span, a Advice, at *Device) error {
	const api = "aclrtMemManagedAdvise"
	if err := d.managed(api, mem, at); err != nil {
		return err
	}
	return d.answer(d.t.MemManagedAdvise(mem.addr, uint64(mem.n), a, place(at)))
}

// Prefetch queues bringing managed memory to a device or, for nil, to the host, before it is needed there.
func (s *Stream) Prefetch(mem Span, to *Device) error {
	const api = "aclrtMemManagedPrefetchAsync"
	if err := s.d.managed(api, mem, to); err != nil {
		return err
	}
	return s.d.answer(s.d.t.MemManagedPrefetchAsync(mem.addr, uint64(mem.n), place(to), 0, s.h))
}

func (d *Device) managed(api string, mem Span, at *Device) error {
	if at != nil && at.r != d.r {
		return misuse(api, "location", otherRuntime)
	}
	return filled(d.r, api, "ptr", mem)
}
