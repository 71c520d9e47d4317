package memory

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/ranges"
)

// Pool is memory of a device that the program allocates and frees in the order of streams (spec/semantics.md, section
// 15). Each block is an allocation of the device, which the pool keeps when it is freed. The pool reuses it, for the
// same size:
//
//   - for the stream on which it was freed, at once;
//   - for others, when the host has synchronised that stream since; or, as the attributes allow, if the stream has
//     waited for an event that was recorded after the free (not one of aclrtCreateEventWithFlag: such a wait may pass
//     because of another record), if the free has been reached by chance, or by making the stream wait for it.
//
// Synchronisations return unused memory beyond the threshold to the device.
//
// Lock order: Device.mu → Pool.mu → poolState.mu; the driver is called with neither of the last two held, and with
// the first where memory is returned.
type Pool struct {
	rt     *core.Runtime    // immutable
	dev    *core.Device     // immutable
	open   *core.OpenDevice // immutable; dev when the pool was created
	handle core.Handle      // immutable
	max    uint64           // immutable; bytes, a multiple of poolGranule

	mu        sync.Mutex
	reuse     [3]bool               // guarded by mu; attributes 1 to 3
	threshold uint64                // guarded by mu; attribute 4
	reserved  level                 // guarded by mu; bytes the pool has allocated
	used      level                 // guarded by mu; bytes that the program has
	unused    map[uint64]*poolClass // guarded by mu; unused blocks, by size
	idle      uint64                // guarded by mu; bytes of unused
	leaving   []*poolBlock          // guarded by mu; freed, but not reused: another process may have them
	gone      bool                  // guarded by mu; destroyed: keeps no unused blocks
	lost      bool                  // guarded by mu; its device was closed, and its memory with it
}

// The reuse attributes.
const (
	followEvents = iota
	opportunistic
	internalWaits
)

// poolClass is the list of unused blocks of one size, last freed at the end. The pool's mu guards it.
type poolClass struct{ list []*poolBlock }

// level is a number of bytes and its maximum so far.
type level struct{ now, high uint64 }

func (l *level) add(n uint64) {
	l.now += n
	l.high = max(l.high, l.now)
}

// poolBlock is one allocation of a pool.
type poolBlock struct {
	pool  *Pool                    // immutable
	addr  core.Addr                // immutable
	size  uint64                   // immutable
	span  *ranges.Span[*poolBlock] // immutable; in poolState.index
	class *poolClass               // immutable; its class in the pool
	done  func()                   // immutable; freeOver, as a value that is created once
	bare  error                    // immutable; why there is no memory at the address, or nil

	live  atomic.Bool   // the program has it
	seen  atomic.Bool   // another process may have it, too
	begun atomic.Uint32 // number of frees queued on streams
	over  atomic.Uint32 // number of these that were reached or dropped
	order core.Order    // signalled by frees

	on     *core.Stream // guarded by pool.mu; stream of its last free; nil: freed outside streams
	waits  uint64       // guarded by pool.mu; synchronisations of that stream begun before the free
	number uint64       // guarded by pool.mu; number of the free on that stream

	waiting atomic.Int32 // gates in the list
	gatesMu sync.Mutex
	gates   []*freedGate // guarded by gatesMu
}

// blocks returns the blocks of p in the index.
func (p *Pool) blocks() (list []*poolBlock) {
	for s := range memoryOf(p.rt).pools.index.All() {
		if s.Of.pool == p {
			list = append(list, s.Of)
		}
	}
	return list
}

// destroy ends the pool, whose handle is gone. Memory that streams still use is returned at a later synchronisation.
func (p *Pool) destroy() {
	core.Locked(&p.mu, func() { p.gone, p.threshold = true, 0 })
	var has []*poolBlock
	for _, b := range p.blocks() {
		if b.live.Load() {
			has = append(has, b)
		}
	}
	memoryOf(p.rt).pools.forget(has, nil)
	p.trim(func(uint64) bool { return true })
}

// lent is a block for a stream, and how many of its frees the stream must wait for.
type lent struct {
	b     *poolBlock
	after uint32
}

// alloc returns a block of size bytes for s: a freed one, else a new one. The block is nil if the pool was destroyed.
func (p *Pool) alloc(api string, s *core.Stream, size uint64) (lent, *core.Error) {
	p.mu.Lock()
	if p.gone {
		p.mu.Unlock()
		return lent{}, nil
	}
	if c := p.unused[size]; c != nil {
		if got := p.pick(s, c.list); got.b != nil {
			p.mu.Unlock()
			return got, nil
		}
	}
	out := p.makeRoom(size)
	room := p.room(size)
	var got lent
	if room {
		p.reserved.add(size)
	} else {
		got = p.pickLarger(s, size)
	}
	p.mu.Unlock()
	p.releaseBlocks(out)
	switch {
	case got.b != nil:
		return got, nil
	case !room:
		return got, p.full(api, size)
	}
	return p.grow(api, size)
}

// full returns the error of a pool without room for size bytes.
func (p *Pool) full(api string, size uint64) *core.Error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return core.Fail(api, abi.ErrRTInternalError, "size",
		"%s wanted, but of the pool's %s the program has %s, and %s cannot be used again yet", byteCount(size),
		byteCount(p.max), byteCount(p.used.now), byteCount(p.idle))
}

// hasRoom reports whether the pool could give the program size more bytes if all unused memory were available.
func (p *Pool) hasRoom(size uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return size <= p.max && p.used.now <= p.max-size
}

// room reports whether the pool may grow by size bytes. p.mu is held.
func (p *Pool) room(size uint64) bool { return size <= p.max && p.reserved.now <= p.max-size }

// usable reports whether s may have b now; p.mu is held.
func (p *Pool) usable(b *poolBlock, s *core.Stream) bool {
	switch {
	case b.on == nil: // freed by aclrtFree; streams may still have to reach frees before that one
		return b.complete()
	case b.on == s, b.on.Frees.Synced.Load() > b.waits:
		return true
	case p.reuse[followEvents] && s.Frees.Follows(b.on, b.number):
		return true
	}
	return p.reuse[opportunistic] && b.complete()
}

// complete reports whether streams have reached all frees of b.
func (b *poolBlock) complete() bool { return b.over.Load() == b.begun.Load() }

// pick takes a block for s from a list of unused ones of one size, if there is one. p.mu is held.
func (p *Pool) pick(s *core.Stream, list []*poolBlock) lent {
	for i := len(list) - 1; i >= 0; i-- {
		if b := list[i]; p.usable(b, s) {
			return p.lend(b, i, 0)
		}
	}
	if n := len(list); n > 0 && p.reuse[internalWaits] {
		return p.lend(list[0], 0, list[0].begun.Load()) // it was freed first, and will be complete first
	}
	return lent{}
}

// pickLarger is pick for a full pool: a larger block is better than none. p.mu is held.
func (p *Pool) pickLarger(s *core.Stream, size uint64) lent {
	for _, n := range slices.Sorted(maps.Keys(p.unused)) {
		if n > size {
			if got := p.pick(s, p.unused[n].list); got.b != nil {
				return got
			}
		}
	}
	return lent{}
}

// lend gives the i-th unused block of its size to the program. p.mu is held.
func (p *Pool) lend(b *poolBlock, i int, after uint32) lent {
	p.cut(b, i)
	b.on = nil
	b.live.Store(true)
	p.used.add(b.size)
	return lent{b, after}
}

// cut removes the i-th unused block of its size from the list. p.mu is held.
func (p *Pool) cut(b *poolBlock, i int) {
	b.class.list = slices.Delete(b.class.list, i, i+1)
	p.idle -= b.size
}

// makeRoom removes enough unused blocks to make room for size bytes, if there are enough. The caller frees them. p.mu
// is held.
func (p *Pool) makeRoom(size uint64) []*poolBlock {
	if p.room(size) || size > p.max {
		return nil
	}
	var can uint64
	for _, c := range p.unused {
		for _, b := range c.list {
			if b.complete() {
				can += b.size
			}
		}
	}
	if p.reserved.now-can > p.max-size {
		return nil
	}
	return p.cutWhile(func(uint64) bool { return !p.room(size) })
}

// cutWhile removes unused blocks that no stream has to reach, large ones first, while more returns true for the size of
// the next one. p.mu is held.
func (p *Pool) cutWhile(more func(size uint64) bool) (out []*poolBlock) {
	for _, size := range slices.Backward(slices.Sorted(maps.Keys(p.unused))) {
		c := p.unused[size]
		for i := 0; i < len(c.list) && more(size); {
			b := c.list[i]
			if !b.complete() {
				i++
				continue
			}
			p.cut(b, i)
			p.reserved.now -= size
			out = append(out, b)
		}
	}
	return out
}

// trim frees unused memory while more, which runs with mu locked, returns true.
func (p *Pool) trim(more func(size uint64) bool) {
	p.mu.Lock()
	var out []*poolBlock
	if p.idle > 0 && more(poolGranule) {
		out = p.cutWhile(more)
	}
	p.leaving = slices.DeleteFunc(p.leaving, func(b *poolBlock) bool {
		over := b.complete()
		if over {
			p.reserved.now -= b.size
			out = append(out, b)
		}
		return over
	})
	over := p.gone && p.idle == 0 && len(p.leaving) == 0
	p.mu.Unlock()
	p.releaseBlocks(out)
	if over {
		memoryOf(p.rt).pools.forget(nil, p)
	}
}

// releaseBlocks frees blocks that were removed from all lists.
func (p *Pool) releaseBlocks(out []*poolBlock) {
	if len(out) == 0 {
		return
	}
	memoryOf(p.rt).pools.forget(out, nil) // first: the addresses may be reused at once
	for _, b := range out {
		b.release()
	}
}

// grow allocates a block of size bytes, which were reserved. If the device is out of memory, the error appears when the
// stream reaches the task, so the block is an address without memory; if the driver has no such addresses, the call
// fails.
func (p *Pool) grow(api string, size uint64) (lent, *core.Error) {
	a, err := p.open.Alloc(size, driver.PageHugeFirst)
	if errors.Is(err, driver.ErrNoMemory) {
		memoryOf(p.rt).pools.emptyAll(p.dev)
		a, err = p.open.Alloc(size, driver.PageHugeFirst)
	}
	b := &poolBlock{pool: p, addr: a, size: size}
	if errors.Is(err, driver.ErrNoMemory) {
		b.bare = fmt.Errorf("%s for a memory pool: %w", byteCount(size), err)
		if m := p.rt.Caps.Map; m != nil {
			b.addr, err = m.Reserve(size, 0)
		}
	}
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.reserved.now -= size
		if p.lost {
			return lent{}, nil // its device was closed since
		}
		return lent{}, core.FromDriver(api, "size", err)
	}
	b.span = &ranges.Span[*poolBlock]{Start: b.addr, Size: size, Of: b}
	b.done = b.freeOver
	b.live.Store(true)
	p.mu.Lock()
	if b.bare != nil {
		p.reserved.now -= size
	} else {
		p.used.add(size)
	}
	gone := p.gone
	if !gone {
		if b.class = p.unused[size]; b.class == nil {
			b.class = new(poolClass)
			p.unused[size] = b.class
		}
		core.Locked(&memoryOf(p.rt).pools.mu, func() { memoryOf(p.rt).pools.index.Insert(b.span) })
	}
	p.mu.Unlock()
	if gone { // destroyed since
		b.release()
		return lent{}, nil
	}
	return lent{b: b}, nil
}

// release frees the memory of a block that was removed from the index. No lock is held.
func (b *poolBlock) release() {
	if b.bare != nil {
		b.unreserve()
		return
	}
	b.pool.open.Free(b.addr) //nolint:errcheck // it belongs to the pool, or was freed with the device
}

// unreserve releases an address that has no memory.
func (b *poolBlock) unreserve() {
	if m := b.pool.rt.Caps.Map; m != nil {
		m.Release(b.addr) //nolint:errcheck // nothing can be mapped there
	}
}

// owned refuses a pointer that is not the start of a block the program has.
func (b *poolBlock) owned(api, arg string, ptr core.Addr) *core.Error {
	if ptr != b.addr {
		return core.Refused(api, arg, "%#x lies %d bytes inside the %d bytes at %#x", ptr, ptr-b.addr, b.size,
			b.addr).Because(core.Gone, ptr)
	}
	if !b.live.Load() {
		return b.notLive(api, arg, ptr)
	}
	return nil
}

func (b *poolBlock) notLive(api, arg string, ptr core.Addr) *core.Error {
	return core.Refused(api, arg, "%#x is memory of a pool that was freed already", ptr).Because(core.Gone, ptr)
}

// free is aclrtFree for memory of a pool: it returns the block to the pool, outside the order of streams.
func (b *poolBlock) free(api, arg string, ptr core.Addr) *core.Error {
	if err := b.owned(api, arg, ptr); err != nil {
		return err
	}
	if !b.live.CompareAndSwap(true, false) {
		return b.notLive(api, arg, ptr)
	}
	b.put(nil)
	return nil
}

// put makes b, which the program has freed, unused. s is the stream whose order has the submitted free, or nil.
func (b *poolBlock) put(s *core.Stream) {
	p := b.pool
	memoryOf(p.rt).ipc.freed(p.rt, b.addr)
	if b.bare != nil {
		if memoryOf(p.rt).pools.forget([]*poolBlock{b}, nil) > 0 {
			b.release()
		}
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost {
		return
	}
	if p.gone { // destroyed while the free was queued: the pool has memory again for a synchronisation to return
		core.Locked(&memoryOf(p.rt).pools.mu, func() {
			memoryOf(p.rt).pools.list = append(slices.DeleteFunc(memoryOf(p.rt).pools.list,
				func(o *Pool) bool { return o == p }), p)
		})
	}
	p.used.now -= b.size
	if b.seen.Load() {
		p.leaving = append(p.leaving, b)
		return
	}
	b.on = s
	if s != nil {
		b.waits, b.number = s.Frees.Freed()
	}
	b.class.list = append(b.class.list, b)
	p.idle += b.size
}
