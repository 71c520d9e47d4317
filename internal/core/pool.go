package core

import (
	"ropeway/internal/abi"
	"ropeway/internal/driver"
	"ropeway/internal/observe"
)

// poolGranule is what sizes in a memory pool are multiples of.
const poolGranule = 2 << 20

// roundPool rounds a size up for a pool; false if it overflows.
func roundPool(size uint64) (uint64, bool) {
	up := (size + poolGranule - 1) &^ (poolGranule - 1)
	return up, up >= size
}

// MemPoolCreate is aclrtMemPoolCreate. Pools are of a device, and go with it when it is reset.
func (t *Thread) MemPoolCreate(memPool *Handle, poolProps *abi.MemPoolProps) *Error {
	const api = "aclrtMemPoolCreate"
	if err := t.checkMemPoolCreate(memPool, poolProps); err != nil {
		return err
	}
	if poolProps.AllocType != abi.MemAllocationTypePinned {
		return invalid(api, "poolProps", "allocType %d is not ACL_MEM_ALLOCATION_TYPE_PINNED (0)", poolProps.AllocType)
	}
	if poolProps.Location.Type != abi.MemLocationTypeDevice {
		return invalid(api, "poolProps", "location.type %d is not DEVICE (1); pools are device memory", poolProps.Location.Type)
	}
	if poolProps.Reserved != [len(poolProps.Reserved)]uint8{} {
		return invalid(api, "poolProps", "the reserved bytes are not 0")
	}
	d := t.rt.byNumber(poolProps.Location.ID)
	if d == nil {
		return t.noDevice(api, "poolProps", int64(poolProps.Location.ID))
	}
	size, fits := roundPool(poolProps.MaxSize)
	dev := d.dev.Load()
	if dev != nil {
		_, total := dev.Memory()
		if size == 0 {
			size = total &^ (poolGranule - 1)
		}
		if !fits || size > total {
			return refused(api, "poolProps", "maxSize is %s, but device %d has %s", byteCount(poolProps.MaxSize), d.user, byteCount(total))
		}
	}
	if !t.rt.prod.Pools {
		return unsupported(api, "", "%s has no memory pools; A2 has", t.rt.prod.Name).quiet()
	}
	if dev == nil {
		return fail(api, abi.ErrRTDevSetupError, "poolProps", "device %d is not set in this process; call aclrtSetDevice first", d.user)
	}
	h := memoryOf(t.rt).pools.make(d, dev, size)
	if h == 0 {
		return fail(api, abi.ErrRTInternalError, "", "device %d was reset meanwhile, or the process has as many pools as there are handles", d.user)
	}
	*memPool = h
	t.given(Resource{Kind: PoolHandle, Name: uintptr(h), Size: size, Device: d.user})
	return nil
}

// MemPoolDestroy is aclrtMemPoolDestroy. Memory of the pool that the program still has stays, as if it came from aclrtMalloc.
func (t *Thread) MemPoolDestroy(memPool Handle) *Error {
	const api = "aclrtMemPoolDestroy"
	if err := t.checkMemPoolDestroy(memPool); err != nil {
		return err
	}
	p := memoryOf(t.rt).pools.table.get(memPool)
	if p == nil {
		return noPool(api, memPool)
	}
	return t.gives(Resource{Kind: PoolHandle, Name: uintptr(memPool), Size: p.max, Device: p.dev.user}, func() *Error {
		if memoryOf(t.rt).pools.table.remove(memPool) == nil { // another thread was faster
			return noPool(api, memPool)
		}
		p.destroy()
		return nil
	})
}

// noPool is the answer of most calls to a handle that names no pool.
func noPool(api string, h Handle) *Error {
	return fail(api, abi.ErrRTInternalError, "memPool", "%#x is no memory pool, or one that was destroyed or went with its device", uintptr(h)).because(Gone, uintptr(h))
}

// poolAttr finds the pool of an attribute call.
func (t *Thread) poolAttr(api string, memPool Handle, value Addr) (*Pool, *Error) {
	if memPool == 0 {
		return nil, isNull(api, "memPool")
	}
	if value == 0 {
		return nil, refused(api, "value", "is NULL")
	}
	p := memoryOf(t.rt).pools.table.get(memPool)
	if p == nil {
		return nil, refused(api, "memPool", "%#x is no memory pool, or one that was destroyed or went with its device", uintptr(memPool)).because(Gone, uintptr(memPool))
	}
	return p, nil
}

// MemPoolSetAttr is aclrtMemPoolSetAttr.
func (t *Thread) MemPoolSetAttr(memPool Handle, attr abi.MemPoolAttr, value Addr) *Error {
	const api = "aclrtMemPoolSetAttr"
	p, err := t.poolAttr(api, memPool, value)
	if err != nil {
		return err
	}
	switch attr {
	case abi.MemPoolAttrReservedMemCurrent, abi.MemPoolAttrUsedMemCurrent:
		return refused(api, "attr", "%v can only be read", attr)
	case abi.MemPoolReuseFollowEventDependencies, abi.MemPoolReuseAllowOpportunistic, abi.MemPoolReuseAllowInternalDependencies:
		on := *pointer[uint32](value) != 0
		locked(&p.mu, func() { p.reuse[attr-abi.MemPoolReuseFollowEventDependencies] = on })
		return nil
	case abi.MemPoolAttrReservedMemHigh, abi.MemPoolAttrUsedMemHigh:
		if n := *pointer[uint64](value); n != 0 {
			return refused(api, "value", "%d: a high-water mark can be set to 0 only, and begins anew then", n)
		}
		l := &p.reserved
		if attr == abi.MemPoolAttrUsedMemHigh {
			l = &p.used
		}
		locked(&p.mu, func() { l.high = l.now })
		return nil
	case abi.MemPoolAttrReleaseThreshold:
		n := *pointer[uint64](value)
		if n > p.max {
			return refused(api, "value", "%s are more than the pool may have, %s", byteCount(n), byteCount(p.max))
		}
		locked(&p.mu, func() { p.threshold = n })
		return nil
	}
	return refused(api, "attr", "%d is no attribute of a pool", attr)
}

// MemPoolGetAttr is aclrtMemPoolGetAttr.
func (t *Thread) MemPoolGetAttr(memPool Handle, attr abi.MemPoolAttr, value Addr) *Error {
	const api = "aclrtMemPoolGetAttr"
	p, err := t.poolAttr(api, memPool, value)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var n uint64
	switch attr {
	case abi.MemPoolReuseFollowEventDependencies, abi.MemPoolReuseAllowOpportunistic, abi.MemPoolReuseAllowInternalDependencies:
		on := pointer[uint32](value)
		*on = 0
		if p.reuse[attr-abi.MemPoolReuseFollowEventDependencies] {
			*on = 1
		}
		return nil
	case abi.MemPoolAttrReleaseThreshold:
		n = p.threshold
	case abi.MemPoolAttrReservedMemCurrent:
		n = p.reserved.now
	case abi.MemPoolAttrReservedMemHigh:
		n = p.reserved.high
	case abi.MemPoolAttrUsedMemCurrent:
		n = p.used.now
	case abi.MemPoolAttrUsedMemHigh:
		n = p.used.high
	default:
		return refused(api, "attr", "%d is not 1 to 8", attr)
	}
	*pointer[uint64](value) = n
	return nil
}

// MemPoolMallocAsync is aclrtMemPoolMallocAsync. There is a task for it only where the stream has to wait, or fails.
func (t *Thread) MemPoolMallocAsync(ptr *Addr, size uint64, memPool, stream Handle) *Error {
	const api = "aclrtMemPoolMallocAsync"
	switch {
	case ptr == nil:
		return isNull(api, "ptr")
	case memPool == 0:
		return isNull(api, "memPool")
	case stream == 0:
		return isNull(api, "stream")
	case size == 0:
		return nil
	}
	s, err := t.poolStream(api, stream)
	if err != nil {
		return err
	}
	rounded, ok := roundPool(size)
	if !ok {
		return refused(api, "size", "%d bytes are too many to be rounded up to 2 MiB: a size has 64 bits", size)
	}
	p := memoryOf(t.rt).pools.table.get(memPool)
	if p == nil {
		return noPool(api, memPool)
	}
	if err := s.admit(api); err != nil {
		if !p.hasRoom(rounded) {
			return p.full(api, rounded)
		}
		return err
	}
	got, err := p.take(api, s, rounded)
	if err != nil {
		return err
	}
	b := got.b
	if b == nil {
		return noPool(api, memPool) // it went meanwhile
	}
	if got.after != 0 {
		s.put(api, t, task{op: driver.Op{Kind: driver.OpGate, Gate: &freedGate{b: b, after: got.after}, Order: &b.order}})
	}
	if b.bare != nil {
		s.put(api, t, task{op: driver.Op{Kind: driver.OpFail, Err: b.bare}, kind: observe.Other})
	}
	*ptr = b.addr
	if t.rt.watch != nil {
		t.given(Resource{Kind: DeviceMemory, Name: b.addr, Size: size, Device: p.dev.user, Pooled: true, Number: s.id, Task: uint32(s.tasks.Load())})
	}
	return nil
}

// poolStream is the stream of a pool call: one of the current context.
func (t *Thread) poolStream(api string, stream Handle) (*Stream, *Error) {
	s, err := t.stream(api, "stream", stream)
	if err != nil {
		return nil, err
	}
	c := t.current()
	if c == nil {
		return nil, fail(api, abi.ErrRTStreamContext, "stream", "stream %d belongs to context %#x, but this thread has no current context", s.id, uintptr(s.ctx.handle)).because(OtherContext, 0)
	}
	return c.on(api, s)
}

// MemPoolFreeAsync is aclrtMemPoolFreeAsync.
func (t *Thread) MemPoolFreeAsync(ptr Addr, stream Handle) *Error {
	const api = "aclrtMemPoolFreeAsync"
	if ptr == 0 {
		return isNull(api, "ptr")
	}
	if stream == 0 {
		return fail(api, abi.ErrRTInternalError, "stream", "is NULL; pools do not take the default stream")
	}
	s, err := t.poolStream(api, stream)
	if err != nil {
		return err
	}
	b := memoryOf(t.rt).pools.find(ptr)
	if b == nil {
		return t.freeLater(api, ptr, stream)
	}
	if err := b.owned(api, "ptr", ptr); err != nil {
		return err
	}
	if err := s.admit(api); err != nil {
		return err
	}
	if !b.live.CompareAndSwap(true, false) {
		return b.notLive(api, "ptr", ptr)
	}
	tag := s.task(t)
	w := t.rt.watch
	var r Resource
	if w != nil {
		r = Resource{Kind: DeviceMemory, Name: ptr, Device: b.pool.dev.user, Pooled: true, Number: s.id, Task: tag.Task}
		w.Taking(t, r)
	}
	b.begun.Add(1)
	op := driver.Op{Kind: driver.OpPost, Fn: nothing, Done: b.done, Order: &b.order, Tag: tag}
	s.put(api, t, task{op: op, kind: observe.Other})
	b.put(s)
	if w != nil {
		w.Taken(t, r)
	}
	return nil
}

func nothing() {}

// freeLater frees memory that is in no pool when the stream gets there. How that ends nobody is told.
func (t *Thread) freeLater(api string, ptr Addr, stream Handle) *Error {
	th := &Thread{rt: t.rt, shared: true}
	err := t.LaunchHostFunc(stream, func(p Addr) {
		if e := th.free(api, "ptr", p); e != nil {
			th.logError(e)
		}
	}, ptr)
	if err != nil {
		err.API = api
	}
	return err
}

// MemPoolTrimTo is aclrtMemPoolTrimTo. Memory that was freed on a stream that has not got there stays.
func (t *Thread) MemPoolTrimTo(memPool Handle, minBytesToKeep uint64) *Error {
	const api = "aclrtMemPoolTrimTo"
	if err := t.checkMemPoolTrimTo(memPool, minBytesToKeep); err != nil {
		return err
	}
	p := memoryOf(t.rt).pools.table.get(memPool)
	if p == nil {
		return noPool(api, memPool)
	}
	if minBytesToKeep > p.max {
		return fail(api, abi.ErrRTInternalError, "minBytesToKeep", "%s are more than the pool may have, %s", byteCount(minBytesToKeep), byteCount(p.max))
	}
	var reserved, used uint64
	locked(&p.mu, func() { reserved, used = p.reserved.now, p.used.now })
	if minBytesToKeep >= reserved {
		return nil
	}
	if minBytesToKeep < used {
		return fail(api, abi.ErrRTInternalError, "minBytesToKeep", "%s are less than the program uses of the pool, %s", byteCount(minBytesToKeep), byteCount(used))
	}
	p.trim(func(size uint64) bool { return p.reserved.now-size >= minBytesToKeep }) // lockcheck: trim locks mu
	return nil
}
