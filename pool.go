package ropeway

import (
	"encoding/binary"
	"runtime"

	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// Pool is device memory that streams take and give back in their own order, without waiting: memory that a stream gave back is
// there again for what it queues next. Only some products have pools (A2).
type Pool struct {
	d *Device
	h core.Handle
}

// Reuse says when memory that one stream gave back may go to another; without any, once the host has synchronised the first.
type Reuse int

// Ways of reuse.
const (
	FollowEvents  Reuse = 1 << iota // if the other waits for an event recorded behind it
	Opportunistic                   // if it happens to be done
	InsertWaits                     // by making the other wait
)

// PoolOptions say how a pool is. The zero value is one of all the device's memory, that keeps nothing over a synchronisation.
type PoolOptions struct {
	Max   uint64 // bytes; 0 is the device's memory
	Keep  uint64 // so many unused bytes survive a synchronisation
	Reuse Reuse
}

// NewPool makes a pool.
func (d *Device) NewPool(o PoolOptions) (*Pool, error) {
	p := &Pool{d: d}
	props := abi.MemPoolProps{MaxSize: o.Max, Location: abi.MemLocation{ID: uint32(d.id), Type: abi.MemLocationTypeDevice}}
	if err := d.t.MemPoolCreate(&p.h, &props); err != nil {
		return nil, d.answer(err)
	}
	attributes := []struct {
		attr  abi.MemPoolAttr
		value uint64
	}{
		{abi.MemPoolReuseFollowEventDependencies, o.on(FollowEvents)},
		{abi.MemPoolReuseAllowOpportunistic, o.on(Opportunistic)},
		{abi.MemPoolReuseAllowInternalDependencies, o.on(InsertWaits)},
		{abi.MemPoolAttrReleaseThreshold, o.Keep},
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

// on is the value of a switch.
func (o *PoolOptions) on(way Reuse) uint64 {
	if o.Reuse&way != 0 {
		return 1
	}
	return 0
}

// set writes an attribute: a number of 32 or 64 bits.
func (p *Pool) set(attr abi.MemPoolAttr, value uint64) error {
	cell := binary.LittleEndian.AppendUint64(nil, value)
	err := p.d.t.MemPoolSetAttr(p.h, attr, core.AddrOf(cell))
	runtime.KeepAlive(cell)
	return p.d.answer(err)
}

func (p *Pool) get(attr abi.MemPoolAttr) (uint64, error) {
	cell := make([]byte, 8)
	err := p.d.t.MemPoolGetAttr(p.h, attr, core.AddrOf(cell))
	return binary.LittleEndian.Uint64(cell), p.d.answer(err)
}

// Alloc takes n bytes for what is queued on the stream from now on; other streams have to be ordered behind it. The buffer is given back by
// [Stream.Free], in the order of a stream, or by [Buffer.Free], at once.
func (p *Pool) Alloc(s *Stream, n int) (*Buffer, error) {
	const api = "aclrtMemPoolMallocAsync"
	switch {
	case s.d.r != p.d.r:
		return nil, misuse(api, "stream", otherRuntime)
	case n <= 0:
		return nil, misuse(api, "size", "is not positive")
	}
	var addr core.Addr
	if err := s.d.t.MemPoolMallocAsync(&addr, uint64(n), p.h, s.h); err != nil {
		return nil, s.d.answer(err)
	}
	return &Buffer{d: p.d, addr: addr, n: n, free: (*core.Thread).Free, device: true, goes: true}, nil
}

// Trim gives memory back to the device that nobody uses, until keep bytes are left or nothing more can go.
func (p *Pool) Trim(keep uint64) error { return p.d.answer(p.d.t.MemPoolTrimTo(p.h, keep)) }

// PoolUse is what a pool has, in bytes.
type PoolUse struct {
	Used, UsedMost         uint64 // handed out, now and at most so far
	Reserved, ReservedMost uint64 // taken from the device
}

// Use tells what the pool has.
func (p *Pool) Use() (u PoolUse, err error) {
	for _, a := range []struct {
		attr abi.MemPoolAttr
		to   *uint64
	}{
		{abi.MemPoolAttrUsedMemCurrent, &u.Used}, {abi.MemPoolAttrUsedMemHigh, &u.UsedMost},
		{abi.MemPoolAttrReservedMemCurrent, &u.Reserved}, {abi.MemPoolAttrReservedMemHigh, &u.ReservedMost},
	} {
		if *a.to, err = p.get(a.attr); err != nil {
			return PoolUse{}, err
		}
	}
	return u, nil
}

// Close ends the pool. Buffers of it that are still there stay good until they are freed.
func (p *Pool) Close() error { return p.d.answer(p.d.t.MemPoolDestroy(p.h)) }

// Free gives device memory back when the stream gets there: what was queued before may still use it, and it must not be used by anything
// queued later. Memory of a [Pool] goes back to its pool.
func (s *Stream) Free(b *Buffer) error {
	const api = "aclrtMemPoolFreeAsync"
	if p := b.problem(s.d.r); p != "" {
		return s.d.r.refuse(api, "ptr", p, core.Gone, b.addr)
	}
	switch {
	case !b.device:
		return misuse(api, "ptr", "is not device memory")
	case b.foreign:
		return misuse(api, "ptr", "is memory of another process; Buffer.Free closes it")
	}
	if b.freed.Swap(true) {
		return s.d.r.refuse(api, "ptr", "the buffer was freed already", core.Gone, b.addr)
	}
	if err := s.d.t.MemPoolFreeAsync(b.addr, s.h); err != nil {
		b.freed.Store(false)
		return s.d.answer(err)
	}
	return nil
}
