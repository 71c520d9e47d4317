package core

import (
	"sync/atomic"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
)

// route is a pair of allocations that the last plain copies of a stream went between. A copy inside it passes all
// checks, except for those of RepeatCopy, until memory is freed or unmapped. Any goroutine reads it, without a lock:
// seq is odd while one writes, and has another value afterwards.
type route struct {
	pair atomic.Uint64 // of the last copy that was outside: two in a row make a route
	seq  atomic.Uint32

	epoch, ends  atomic.Uint64 // the driver's epoch; place and device of both allocations, as packEnds has them
	srcLo, srcHi atomic.Uintptr
	dstLo, dstHi atomic.Uintptr
}

// within reports whether n bytes at addr are between lo and hi.
func within(addr Addr, n uint64, lo, hi Addr) bool {
	return addr >= lo && addr < hi && n <= uint64(hi-addr)
}

// RememberRoute notes a copy that has passed all checks: from and to were looked up in the epoch, or later.
func (t *Thread) RememberRoute(s *Stream, dst, src Addr, from, to driver.Location, epoch uint64) {
	rt, phys := t.Runtime, s.Context.Device.Phys
	if rt.blocking || rt.Aligned || rt.Checked() || from.Place == driver.Pageable || to.Place == driver.Pageable ||
		from.Place == to.Place && (from.Device != phys || to.Device != phys) { // peer access can be taken back
		return
	}
	r, srcHi, dstHi := &s.route, src+Addr(from.Room), dst+Addr(to.Room)
	if pair := uint64(srcHi)*0x9e3779b97f4a7c15 ^ uint64(dstHi) ^ epoch<<48; r.pair.Load() != pair {
		r.pair.Store(pair)
		return
	}
	srcLo, dstLo := rt.startOf(src, srcHi), rt.startOf(dst, dstHi)
	seq := r.seq.Load()
	if seq&1 != 0 || !r.seq.CompareAndSwap(seq, seq+1) {
		return // another thread writes
	}
	r.epoch.Store(epoch)
	r.ends.Store(packEnds(from, to))
	r.srcLo.Store(srcLo)
	r.srcHi.Store(srcHi)
	r.dstLo.Store(dstLo)
	r.dstHi.Store(dstHi)
	r.seq.Store(seq + 2)
}

// startOf returns the start of the allocation that addr is in, which ends at hi; addr if it has changed.
func (rt *Runtime) startOf(addr, hi Addr) Addr {
	if a := rt.Driver.Describe(addr); a.Start+Addr(a.Size) == hi {
		return a.Start
	}
	return addr
}

// packEnds packs place and device of both ends of a copy.
func packEnds(from, to driver.Location) uint64 {
	return uint64(from.Place) | uint64(to.Place)<<8 | uint64(uint16(from.Device))<<16 | uint64(uint16(to.Device))<<32
}

// unpackEnds returns locations with the place and device of both ends.
func unpackEnds(ends uint64) (from, to driver.Location) {
	return driver.Location{Place: driver.Place(ends), Device: int32(uint16(ends >> 16))},
		driver.Location{Place: driver.Place(ends >> 8), Device: int32(uint16(ends >> 32))}
}

// RepeatCopy queues a copy that is inside the route of its stream, and reports whether it did.
func (t *Thread) RepeatCopy(dst Addr, destMax uint64, src Addr, count uint64, kind abi.MemcpyKind, stream Handle) bool {
	c := t.Explicit
	if c == nil {
		if c = t.Primary; c == nil {
			return false
		}
	}
	s := c.Default
	if stream != 0 {
		slot := t.Runtime.Streams.Slot(stream)
		if slot == nil {
			return false
		}
		if s = slot.Object(stream); s == nil || s.Context != c {
			return false
		}
	}
	if dst == src || count == 0 || count > destMax ||
		uint32(kind-abi.MemcpyHostToDevice) > uint32(abi.MemcpyDefault-abi.MemcpyHostToDevice) {
		return false
	}
	r := &s.route
	seq, ends := r.seq.Load(), r.ends.Load()
	if !within(src, count, r.srcLo.Load(), r.srcHi.Load()) || !within(dst, count, r.dstLo.Load(), r.dstHi.Load()) ||
		r.epoch.Load() != t.Runtime.Epoch.Load() || seq&1 != 0 || seq != r.seq.Load() {
		return false
	}
	if c.dead.Load() || c.Device.aborting.Load() || c.failed.Load() != 0 || s.lane.Load() != nil ||
		s.updater.Load() != nil {
		return false
	}
	s.putCopy("aclrtMemcpyAsync", t, dst, src, count, ends)
	return true
}
