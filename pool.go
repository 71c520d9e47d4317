package ropeway

import (
	"encoding/binary"
	"runtime"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
)

// Pool is device memory that streams allocate and free in stream order, without waiting: later work of a stream can
// reuse memory that the stream has freed. Only some products have pools (A2).
type Pool struct {
	d *Device
	h core.Handle
}

// Reuse determines when another stream may reuse memory that one stream freed: by default, once the host has
// synchronised the first.
type Reuse int

// Ways of reuse.
const (
	FollowEvents  Reuse = 1 << iota // if the other stream waits for an event recorded after the free
	Opportunistic                   // if the free happens to be done
	InsertWaits                     // by making the other stream wait
)

// PoolOptions are the properties of a pool. With the zero value it may use all of the device's memory and keeps no
// unused memory at a synchronisation.
type PoolOptions struct {
	Max   int // bytes; 0 is the device's memory
	Keep  int // unused bytes that the pool keeps at a synchronisation
	Reuse Reuse
}

// NewPool returns a new pool.
func (d *Device) NewPool(o PoolOptions) (*Pool, error) {
	p := &Pool{d: d}
	props := abi.MemPoolProps{MaxSize: size(o.Max), Location: d.location()}
	if err := memory.MemPoolCreate(d.t, &p.h, &props); err != nil {
		return nil, d.result(err)
	}
	attributes := []struct {
		attr  abi.MemPoolAttr
		value uint64
	}{
		{abi.MemPoolReuseFollowEventDependencies, o.on(FollowEvents)},
		{abi.MemPoolReuseAllowOpportunistic, o.on(Opportunistic)},
		{abi.MemPoolReuseAllowInternalDependencies, o.on(InsertWaits)},
		{abi.MemPoolAttrReleaseThreshold, size(o.Keep)},
	}
	for _, a := range attributes {
		if a.value == 0 {
			continue
		}
		if err := p.set(a.attr, a.value); err != nil {
			_ = p.Close()
			return nil, err
		}
	}
	return p, nil
}

// on returns the value of the attribute for a way of reuse.
func (o *PoolOptions) on(way Reuse) uint64 {
	if o.Reuse&way != 0 {
		return 1
	}
	return 0
}

// set writes an attribute: a number of 32 or 64 bits.
func (p *Pool) set(attr abi.MemPoolAttr, value uint64) error {
	cell := binary.LittleEndian.AppendUint64(nil, value)
	err := memory.MemPoolSetAttr(p.d.t, p.h, attr, core.AddrOf(cell))
	runtime.KeepAlive(cell)
	return p.d.result(err)
}

func (p *Pool) get(attr abi.MemPoolAttr) (uint64, error) {
	cell := make([]byte, 8)
	err := memory.MemPoolGetAttr(p.d.t, p.h, attr, core.AddrOf(cell))
	return binary.LittleEndian.Uint64(cell), p.d.result(err)
}

// Alloc allocates n bytes for later work of the stream; work on other streams must be ordered after the allocation.
// [Buffer.CloseOn] frees the buffer in stream order, [Buffer.Close] at once.
func (p *Pool) Alloc(s *Stream, n int) (*Buffer, error) {
	const api = "aclrtMemPoolMallocAsync"
	switch {
	case s.d.r != p.d.r:
		return nil, misuse(api, "stream", otherRuntime)
	case n <= 0:
		return nil, misuse(api, "size", "is not positive")
	}
	var addr core.Addr
	if err := memory.MemPoolMallocAsync(s.d.t, &addr, uint64(n), p.h, s.h); err != nil {
		return nil, s.d.result(err)
	}
	return &Buffer{d: p.d, addr: addr, n: n, free: memory.Free, device: true, goes: true}, nil
}

// Trim frees unused memory of the pool until keep bytes are left or none is unused.
func (p *Pool) Trim(keep int) error { return p.d.result(memory.MemPoolTrimTo(p.d.t, p.h, size(keep))) }

// PoolStats is the memory of a pool, in bytes.
type PoolStats struct {
	Used, UsedMost         int // in use, now and at the peak
	Reserved, ReservedMost int // allocated from the device, now and at the peak
}

// Stats returns the memory use of the pool.
func (p *Pool) Stats() (u PoolStats, err error) {
	for _, a := range []struct {
		attr abi.MemPoolAttr
		to   *int
	}{
		{abi.MemPoolAttrUsedMemCurrent, &u.Used}, {abi.MemPoolAttrUsedMemHigh, &u.UsedMost},
		{abi.MemPoolAttrReservedMemCurrent, &u.Reserved}, {abi.MemPoolAttrReservedMemHigh, &u.ReservedMost},
	} {
		n, err := p.get(a.attr)
		if err != nil {
			return PoolStats{}, err
		}
		*a.to = int(n)
	}
	return u, nil
}

// Close closes the pool. Buffers of it stay valid until they are closed.
func (p *Pool) Close() error { return p.d.result(memory.MemPoolDestroy(p.d.t, p.h)) }

// CloseOn queues freeing device memory: earlier work of the stream may still use it, later work must not. Memory of a
// [Pool] returns to its pool. The buffer counts as closed after the call.
func (b *Buffer) CloseOn(s *Stream) error {
	const api = "aclrtMemPoolFreeAsync"
	if p := b.problem(s.d.r); p != "" {
		return s.d.r.refuse(api, "ptr", p, core.Gone, b.addr)
	}
	switch {
	case !b.device:
		return misuse(api, "ptr", "is not device memory")
	case b.foreign:
		return misuse(api, "ptr", "is memory of another process; Close closes it")
	}
	if b.freed.Swap(true) {
		return s.d.r.refuse(api, "ptr", "the buffer was closed already", core.Gone, b.addr)
	}
	if err := memory.MemPoolFreeAsync(s.d.t, b.addr, s.h); err != nil {
		b.freed.Store(false)
		return s.d.result(err)
	}
	return nil
}
