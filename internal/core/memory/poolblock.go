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

// Pool is memory of a device that the program gets and frees in the order of streams (spec/semantics.md, section
// 15). Each block is an allocation of the device, which the pool keeps when it is freed. It is handed out again, for
// the same size:
//
//   - to the stream on which it was freed, at once;
//   - to others, when the host has synchronised that stream since; or, as the attributes allow, if the stream has
//     waited for an event that was recorded after the free (not one of aclrtCreateEventWithFlag: such a wait may pass
//     because of another record),
//     if the free has been reached by chance, or by making the stream wait for it.
//
// Synchronisations return to the device what is unused beyond the threshold.
//
// Lock order: Device.mu → Pool.mu → poolState.mu; the driver is called with neither of the last two held, and with
// the first where memory is returned.
type Pool struct {
	rt     *core.Runtime    // immutable
	dev    *core.Device     // immutable
	open   *core.OpenDevice // immutable; dev as it was when the pool was made
	handle core.Handle      // immutable
	max    uint64           // immutable; bytes, a multiple of poolGranule

	mu        sync.Mutex
	reuse     [3]bool               // guarded by mu; attributes 1 to 3
	threshold uint64                // guarded by mu; attribute 4
	reserved  level                 // guarded by mu; bytes the pool has of its device
	used      level                 // guarded by mu; bytes of it the program has
	unused    map[uint64]*poolClass // guarded by mu; the rest, by size
	idle      uint64                // guarded by mu; bytes of unused
	leaving   []*poolBlock          // guarded by mu; freed, and not to be used again: another process may see them
	gone      bool                  // guarded by mu; destroyed: nothing is kept
	lost      bool                  // guarded by mu; its device was closed, its memory is no more
}

// The reuse attributes.
const (
	followEvents = iota
	opportunistic
	internalWaits
)

// poolClass is the unused blocks of one size, what was freed last at the end. The pool's mu guards it.
type poolClass struct{ list []*poolBlock }

// level is a number of bytes and the most it was.
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
	class *poolClass               // immutable; of the pool, where it is when it is unused
	done  func()                   // immutable; freeOver, made once
	bare  error                    // immutable; why there is no memory at the address, nil if there is

	live  atomic.Bool   // the program has it
	seen  atomic.Bool   // another process may have it, too
	begun atomic.Uint32 // frees queued on streams, ever
	over  atomic.Uint32 // of these, how many were reached or dropped
	order core.Order    // signalled by frees

	on     *core.Stream // guarded by pool.mu; where it was freed last; nil: in no stream's order
	waits  uint64       // guarded by pool.mu; synchronisations of that stream begun by then
	number uint64       // guarded by pool.mu; of the free among those of that stream

	waiting atomic.Int32 // gates in the list
	gatesMu sync.Mutex
	gates   []*freedGate // guarded by gatesMu
}

// blocks lists what the index has of p.
func (p *Pool) blocks() (list []*poolBlock) {
	for s := range memoryOf(p.rt).pools.index.All() {
		if s.Of.pool == p {
			list = append(list, s.Of)
		}
	}
	return list
}

// destroy ends the pool, which has no handle any more. What streams are not done with is returned at a later
// synchronisation.
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

// taken is a block for a stream that has to wait until its first after frees are over; 0: it need not.
type taken struct {
	b     *poolBlock
	after uint32
}

// take is size bytes for s: memory that was freed, else new memory. It is nil if the pool has gone.
func (p *Pool) take(api string, s *core.Stream, size uint64) (taken, *core.Error) {
	p.mu.Lock()
	if p.gone {
		p.mu.Unlock()
		return taken{}, nil
	}
	if c := p.unused[size]; c != nil {
		if got := p.pick(s, c.list); got.b != nil {
			p.mu.Unlock()
			return got, nil
		}
	}
	out := p.makeRoom(size)
	room := p.room(size)
	var got taken
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

// full is the error of a pool without room for size bytes.
func (p *Pool) full(api string, size uint64) *core.Error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return core.Fail(api, abi.ErrRTInternalError, "size",
		"%s wanted, but of the pool's %s the program has %s, and %s cannot be used again yet", byteCount(size),
		byteCount(p.max), byteCount(p.used.now), byteCount(p.idle))
}

// hasRoom reports whether the pool could have size bytes more for the program, once all that is unused can be had.
func (p *Pool) hasRoom(size uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return size <= p.max && p.used.now <= p.max-size
}

// room reports whether the pool may have size bytes more. p.mu is held.
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

// pick takes a block for s out of a list of unused ones of one size, if there is one. p.mu is held.
func (p *Pool) pick(s *core.Stream, list []*poolBlock) taken {
	for i := len(list) - 1; i >= 0; i-- {
		if b := list[i]; p.usable(b, s) {
			return p.lend(b, i, 0)
		}
	}
	if n := len(list); n > 0 && p.reuse[internalWaits] {
		return p.lend(list[0], 0, list[0].begun.Load()) // it was freed first, and is over first
	}
	return taken{}
}

// pickLarger is pick for a pool that is full: a block that is larger than need be is better than none. p.mu is held.
func (p *Pool) pickLarger(s *core.Stream, size uint64) taken {
	for _, n := range slices.Sorted(maps.Keys(p.unused)) {
		if n > size {
			if got := p.pick(s, p.unused[n].list); got.b != nil {
				return got
			}
		}
	}
	return taken{}
}

// lend gives the i-th unused block of its size to the program. p.mu is held.
func (p *Pool) lend(b *poolBlock, i int, after uint32) taken {
	p.cut(b, i)
	b.on = nil
	b.live.Store(true)
	p.used.add(b.size)
	return taken{b, after}
}

// cut takes the i-th unused block of its size off the list. p.mu is held.
func (p *Pool) cut(b *poolBlock, i int) {
	b.class.list = slices.Delete(b.class.list, i, i+1)
	p.idle -= b.size
}

// makeRoom takes as many unused blocks as make room for size bytes, if there are that many. The caller frees them. p.mu
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

// cutWhile takes unused blocks that no stream has to reach, large ones first, as long as more says so of the next
// one's size. p.mu is held.
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

// trim frees unused memory, as long as more says so, which runs with mu locked.
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

// releaseBlocks frees blocks that are on no list any more.
func (p *Pool) releaseBlocks(out []*poolBlock) {
	if len(out) == 0 {
		return
	}
	memoryOf(p.rt).pools.forget(out, nil) // first: the addresses may be reused at once
	for _, b := range out {
		b.release()
	}
}

// grow makes a block of size bytes, which are reserved. A device without memory is seen when the stream gets there, so
// the block is an address without memory; where the driver has no such addresses it is the call that fails.
func (p *Pool) grow(api string, size uint64) (taken, *core.Error) {
	a, err := p.open.Alloc(size, driver.PageHugeFirst)
	if errors.Is(err, driver.ErrNoMemory) {
		memoryOf(p.rt).pools.emptyAll(p.dev)
		a, err = p.open.Alloc(size, driver.PageHugeFirst)
	}
	b := &poolBlock{pool: p, addr: a, size: size}
	if errors.Is(err, driver.ErrNoMemory) {
		b.bare = fmt.Errorf("%s for a memory pool: %w", byteCount(size), err)
		if m, ok := driver.As[driver.Mapper](p.rt.Driver); ok {
			b.addr, err = m.Reserve(size, 0)
		}
	}
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.reserved.now -= size
		if p.lost {
			return taken{}, nil // its device was closed meanwhile
		}
		return taken{}, core.FromDriver(api, "size", err)
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
	if gone { // meanwhile
		b.release()
		return taken{}, nil
	}
	return taken{b: b}, nil
}

// release frees the memory of a block that is not in the index any more. No lock is held.
func (b *poolBlock) release() {
	if b.bare != nil {
		b.unreserve()
		return
	}
	b.pool.open.Free(b.addr) //nolint:errcheck // it is the pool's, or went with the device
}

// unreserve releases an address that has no memory.
func (b *poolBlock) unreserve() {
	if m, ok := driver.As[driver.Mapper](b.pool.rt.Driver); ok {
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

// free is aclrtFree for memory of a pool: it goes back there, in no stream's order.
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

// put makes b, which the program no longer has, unused. It was freed in the order of s, where that has been
// submitted, or of none.
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
	if p.gone { // while the free was queued: the pool has memory again, for a synchronisation to return
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
