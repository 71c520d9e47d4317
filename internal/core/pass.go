package core

import (
	"ropeway/internal/abi"
	"ropeway/internal/driver"
)

// pass is what the checks of a thread's last asynchronous copy have shown: its stream is one of the current context, and
// nearSrc and nearDst are memory that every kind of copy but HOST_TO_HOST may go between. Most copies of a program are like the one
// before them; all that such a copy can fail on is looked at by copyAgain, and everything else stays true by itself.
type pass struct {
	stream Handle        // as the program gave it; 0 is the default stream
	slot   *slot[Stream] // whether it still lives; nil for the default stream, which goes with its context
	s      *Stream       // nil: no copy has passed
}

// passed notes that a copy between two places in context c went through.
func (t *Thread) passed(c *Context, s *Stream, stream Handle, from, to driver.Location) {
	if t.shared || t.rt.blocking || t.rt.aligned || t.rt.watch != nil || from.Place == driver.Pageable || to.Place == driver.Pageable {
		return
	}
	if from.Place == to.Place && (from.Device != c.dev.phys || to.Device != c.dev.phys) {
		return // peer access can be taken back
	}
	t.pass = pass{stream: stream, s: s}
	if stream != 0 {
		t.pass.slot = t.rt.streams.slot(stream)
	}
}

// copyAgain queues a copy if it is like the last one, and tells whether it did.
func (t *Thread) copyAgain(dst Addr, destMax uint64, src Addr, count uint64, kind abi.MemcpyKind, stream Handle) bool {
	s, c := t.pass.s, t.explicit
	if c == nil {
		c = t.primary
	}
	if s == nil || stream != t.pass.stream || s.ctx != c || dst == src ||
		count == 0 || count > destMax || uint32(kind-abi.MemcpyHostToDevice) > uint32(abi.MemcpyDefault-abi.MemcpyHostToDevice) {
		return false
	}
	if slot := t.pass.slot; slot != nil && slot.handle.Load() != uintptr(stream) {
		return false
	}
	epoch := t.rt.epoch.Load()
	if !t.nearSrc.holds(src, count, epoch) || !t.nearDst.holds(dst, count, epoch) {
		return false
	}
	if c.dead.Load() || c.dev.aborting.Load() || c.failed.Load() != 0 {
		return false
	}
	s.putCopy("aclrtMemcpyAsync", t, dst, src, count, &t.nearSrc.loc, &t.nearDst.loc)
	return true
}

// holds tells whether n bytes at addr are in the allocation that p remembers.
func (p *places) holds(addr Addr, n, epoch uint64) bool {
	return addr >= p.lo && addr < p.hi && n <= uint64(p.hi-addr) && p.epoch == epoch
}
