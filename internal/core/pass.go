package core

import (
	"ropeway/internal/abi"
	"ropeway/internal/core/handles"
	"ropeway/internal/driver"
)

// CopyCache is what the checks of a thread's last asynchronous copy have shown: its stream is one of the current
// context, and SrcCache and DstCache are memory that every kind of copy but HOST_TO_HOST may go between. Most copies
// of a program are like the one before them; all that such a copy can fail on is looked at by RepeatCopy, and
// everything else stays true by itself.
type CopyCache struct {
	stream Handle                // as the program gave it; 0 is the default stream
	slot   *handles.Slot[Stream] // whether it still lives; nil for the default stream, which goes with its context
	s      *Stream               // nil: no copy has passed
}

// RememberCopy notes that a copy between two places in context c went through.
func (t *Thread) RememberCopy(c *Context, s *Stream, stream Handle, from, to driver.Location) {
	if t.Shared || t.Runtime.blocking || t.Runtime.Aligned || t.Runtime.Checked() || from.Place == driver.Pageable ||
		to.Place == driver.Pageable {
		return
	}
	if from.Place == to.Place && (from.Device != c.Device.Phys || to.Device != c.Device.Phys) {
		return // peer access can be taken back
	}
	t.CopyCache = CopyCache{stream: stream, s: s}
	if stream != 0 {
		t.CopyCache.slot = t.Runtime.Streams.Slot(stream)
	}
}

// RepeatCopy queues a copy if it is like the last one, and reports whether it did.
func (t *Thread) RepeatCopy(dst Addr, destMax uint64, src Addr, count uint64, kind abi.MemcpyKind, stream Handle) bool {
	s, c := t.CopyCache.s, t.Explicit
	if c == nil {
		c = t.Primary
	}
	if s == nil || stream != t.CopyCache.stream || s.Context != c || dst == src ||
		count == 0 || count > destMax ||
		uint32(kind-abi.MemcpyHostToDevice) > uint32(abi.MemcpyDefault-abi.MemcpyHostToDevice) {
		return false
	}
	if slot := t.CopyCache.slot; slot != nil && !slot.Holds(stream) {
		return false
	}
	epoch := t.Runtime.Epoch.Load()
	if !t.SrcCache.holds(src, count, epoch) || !t.DstCache.holds(dst, count, epoch) {
		return false
	}
	if c.dead.Load() || c.Device.aborting.Load() || c.failed.Load() != 0 || s.lane.Load() != nil ||
		s.updater.Load() != nil {
		return false
	}
	s.PutCopy("aclrtMemcpyAsync", t, dst, src, count, &t.SrcCache.loc, &t.DstCache.loc)
	return true
}

// holds reports whether n bytes at addr are in the allocation that p remembers.
func (p *LocationCache) holds(addr Addr, n, epoch uint64) bool {
	return addr >= p.Lo && addr < p.Hi && n <= uint64(p.Hi-addr) && p.epoch == epoch
}
