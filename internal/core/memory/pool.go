package memory

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/observe"
)

// poolGranule is the granularity of sizes in a memory pool.
const poolGranule = 2 << 20

// roundPool rounds a size up for a pool; false if it overflows.
func roundPool(size uint64) (uint64, bool) {
	up := (size + poolGranule - 1) &^ (poolGranule - 1)
	return up, up >= size
}

// MemPoolCreate is aclrtMemPoolCreate. A pool belongs to a device, and ends when that is reset.
func MemPoolCreate(t *core.Thread, memPool *core.Handle, poolProps *abi.MemPoolProps) *core.Error {
	const api = "aclrtMemPoolCreate"
	if err := checkMemPoolCreate(t, memPool, poolProps); err != nil {
		return err
	}
	if poolProps.AllocType != abi.MemAllocationTypePinned {
		return core.Invalid(api, "poolProps", "allocType %d is not ACL_MEM_ALLOCATION_TYPE_PINNED (0)",
			poolProps.AllocType)
	}
	if poolProps.Location.Type != abi.MemLocationTypeDevice {
		return core.Invalid(api, "poolProps", "location.type %d is not DEVICE (1); pools are device memory",
			poolProps.Location.Type)
	}
	if poolProps.Reserved != [len(poolProps.Reserved)]uint8{} {
		return core.Invalid(api, "poolProps", "the reserved bytes are not 0")
	}
	d := t.Runtime.ByNumber(poolProps.Location.ID)
	if d == nil {
		return t.NoDevice(api, "poolProps", int64(poolProps.Location.ID))
	}
	size, fits := roundPool(poolProps.MaxSize)
	dev := d.Opened.Load()
	if dev != nil {
		_, total := dev.Memory()
		if size == 0 {
			size = total &^ (poolGranule - 1)
		}
		if !fits || size > total {
			return core.Refused(api, "poolProps", "maxSize is %s, but device %d has %s", byteCount(poolProps.MaxSize),
				d.User, byteCount(total))
		}
	}
	if !t.Runtime.Product.Pools {
		return core.Unsupported(api, "", "%s has no memory pools; A2 has", t.Runtime.Product.Name).NotRecorded()
	}
	if dev == nil {
		return core.Fail(api, abi.ErrRTDevSetupError, "poolProps",
			"device %d is not set in this process; call aclrtSetDevice first", d.User)
	}
	h := memoryOf(t.Runtime).pools.make(d, dev, size)
	if h == 0 {
		return core.Fail(api, abi.ErrRTInternalError, "",
			"device %d was reset meanwhile, or the process has as many pools as there are handles", d.User)
	}
	*memPool = h
	t.Acquired(core.Resource{Kind: core.PoolHandle, Name: uintptr(h), Size: size, Device: d.User})
	return nil
}

// MemPoolDestroy is aclrtMemPoolDestroy. Memory of the pool that the program still has stays, as if it came from
// aclrtMalloc.
func MemPoolDestroy(t *core.Thread, memPool core.Handle) *core.Error {
	const api = "aclrtMemPoolDestroy"
	if err := checkMemPoolDestroy(t, memPool); err != nil {
		return err
	}
	p := memoryOf(t.Runtime).pools.table.Get(memPool)
	if p == nil {
		return noPool(api, memPool)
	}
	return t.Releasing(core.Resource{Kind: core.PoolHandle, Name: uintptr(memPool), Size: p.max, Device: p.dev.User},
		func() *core.Error {
			if memoryOf(t.Runtime).pools.table.Remove(memPool) == nil { // another thread was faster
				return noPool(api, memPool)
			}
			p.destroy()
			return nil
		})
}

// noPool returns the error of most calls for a handle that is not a pool.
func noPool(api string, h core.Handle) *core.Error {
	return core.Fail(api, abi.ErrRTInternalError, "memPool",
		"%#x is no memory pool, or one that was destroyed or went with its device", uintptr(h)).Because(core.Gone,
		uintptr(h))
}

// findPool finds the pool of an attribute call.
func findPool(t *core.Thread, api string, memPool core.Handle) (*Pool, *core.Error) {
	p := memoryOf(t.Runtime).pools.table.Get(memPool)
	if p == nil {
		return nil, core.Refused(api, "memPool",
			"%#x is no memory pool, or one that was destroyed or went with its device", uintptr(memPool)).
			Because(core.Gone, uintptr(memPool))
	}
	return p, nil
}

// MemPoolSetAttr is aclrtMemPoolSetAttr.
func MemPoolSetAttr(t *core.Thread, memPool core.Handle, attr abi.MemPoolAttr, value core.Addr) *core.Error {
	const api = "aclrtMemPoolSetAttr"
	p, err := checkMemPoolSetAttr(t, memPool, attr, value)
	if err != nil {
		return err
	}
	switch attr {
	case abi.MemPoolAttrReservedMemCurrent, abi.MemPoolAttrUsedMemCurrent:
		return core.Refused(api, "attr", "%v can only be read", attr)
	case abi.MemPoolReuseFollowEventDependencies, abi.MemPoolReuseAllowOpportunistic,
		abi.MemPoolReuseAllowInternalDependencies:
		on := *core.Pointer[uint32](value) != 0
		core.Locked(&p.mu, func() { p.reuse[attr-abi.MemPoolReuseFollowEventDependencies] = on })
		return nil
	case abi.MemPoolAttrReservedMemHigh, abi.MemPoolAttrUsedMemHigh:
		if n := *core.Pointer[uint64](value); n != 0 {
			return core.Refused(api, "value", "%d: a high-water mark can be set to 0 only, and begins anew then", n)
		}
		l := &p.reserved
		if attr == abi.MemPoolAttrUsedMemHigh {
			l = &p.used
		}
		core.Locked(&p.mu, func() { l.high = l.now })
		return nil
	case abi.MemPoolAttrReleaseThreshold:
		n := *core.Pointer[uint64](value)
		if n > p.max {
			return core.Refused(api, "value", "%s are more than the pool may have, %s", byteCount(n), byteCount(p.max))
		}
		core.Locked(&p.mu, func() { p.threshold = n })
		return nil
	}
	return core.Refused(api, "attr", "%d is no attribute of a pool", attr)
}

// MemPoolGetAttr is aclrtMemPoolGetAttr.
func MemPoolGetAttr(t *core.Thread, memPool core.Handle, attr abi.MemPoolAttr, value core.Addr) *core.Error {
	const api = "aclrtMemPoolGetAttr"
	p, err := checkMemPoolGetAttr(t, memPool, attr, value)
	if err != nil {
		return err
	}
	n, wide, ok := p.attribute(attr)
	switch {
	case !ok:
		return core.Refused(api, "attr", "%d is not 1 to 8", attr)
	case wide:
		*core.Pointer[uint64](value) = n
	default:
		*core.Pointer[uint32](value) = uint32(n)
	}
	return nil
}

// attribute returns the value of an attribute, and whether that has 64 bits or 32.
func (p *Pool) attribute(attr abi.MemPoolAttr) (n uint64, wide, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch attr {
	case abi.MemPoolReuseFollowEventDependencies, abi.MemPoolReuseAllowOpportunistic,
		abi.MemPoolReuseAllowInternalDependencies:
		if p.reuse[attr-abi.MemPoolReuseFollowEventDependencies] {
			n = 1
		}
		return n, false, true
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
		return 0, false, false
	}
	return n, true, true
}

// MemPoolMallocAsync is aclrtMemPoolMallocAsync. It submits a task only if the stream has to wait, or fails.
func MemPoolMallocAsync(t *core.Thread, ptr *core.Addr, size uint64, memPool, stream core.Handle) *core.Error {
	const api = "aclrtMemPoolMallocAsync"
	s, done, err := checkMemPoolMallocAsync(t, ptr, size, memPool, stream)
	if done {
		return err
	}
	rounded, ok := roundPool(size)
	if !ok {
		return core.Refused(api, "size", "%d bytes are too many to be rounded up to 2 MiB: a size has 64 bits", size)
	}
	p := memoryOf(t.Runtime).pools.table.Get(memPool)
	if p == nil {
		return noPool(api, memPool)
	}
	if err := s.Admit(api); err != nil {
		if !p.hasRoom(rounded) {
			return p.full(api, rounded)
		}
		return err
	}
	got, err := p.alloc(api, s, rounded)
	if err != nil {
		return err
	}
	b := got.b
	if b == nil {
		return noPool(api, memPool) // it was destroyed since
	}
	if got.after != 0 {
		s.Put(api, t, core.Task{Op: driver.Op{Kind: driver.OpWaitCond, Gate: &freedGate{b: b, after: got.after}},
			Order: &b.order, Outside: true})
	}
	if b.bare != nil {
		s.Put(api, t, core.Task{Op: driver.Op{Kind: driver.OpFail, Err: b.bare}, Kind: observe.Other,
			Outside: true})
	}
	*ptr = b.addr
	if t.Runtime.Checked() {
		t.Acquired(core.Resource{Kind: core.DeviceMemory, Name: b.addr, Size: size, Device: p.dev.User, Pooled: true,
			Number: s.ID, Task: uint32(s.Tasks.Load()), Pool: uintptr(memPool)})
	}
	return nil
}

// ofCurrent refuses a stream of another context than the current one.
func ofCurrent(t *core.Thread, api string, s *core.Stream) *core.Error {
	c := t.Current()
	if c == s.Context {
		return nil
	}
	if c == nil {
		return core.Fail(api, abi.ErrRTStreamContext, "stream",
			"stream %d belongs to context %#x, but this thread has no current context", s.ID,
			uintptr(s.Context.Handle)).Because(core.OtherContext, 0)
	}
	_, err := c.On(api, s)
	return err
}

// MemPoolFreeAsync is aclrtMemPoolFreeAsync.
func MemPoolFreeAsync(t *core.Thread, ptr core.Addr, stream core.Handle) *core.Error {
	const api = "aclrtMemPoolFreeAsync"
	s, err := checkMemPoolFreeAsync(t, ptr, stream)
	if err != nil {
		return err
	}
	b := memoryOf(t.Runtime).pools.find(ptr)
	if b == nil {
		return freeLater(t, api, ptr, stream)
	}
	if err := b.owned(api, "ptr", ptr); err != nil {
		return err
	}
	if err := s.Admit(api); err != nil {
		return err
	}
	if !b.live.CompareAndSwap(true, false) {
		return b.notLive(api, "ptr", ptr)
	}
	if l := s.Lane(); l != nil && l.AtEnd(b.freeWithModel) {
		return nil
	}
	tag := s.NextTag(t, &b.order)
	if !t.Runtime.Checked() {
		return b.queueFree(api, t, s, tag)
	}
	r := core.Resource{Kind: core.DeviceMemory, Name: ptr, Device: b.pool.dev.User, Pooled: true, Number: s.ID,
		Task: tag.Task}
	return t.Releasing(r, func() *core.Error { return b.queueFree(api, t, s, tag) })
}

// freeWithModel frees b in a capture: executions of the model use b, so it stays theirs until the model is destroyed.
func (b *poolBlock) freeWithModel() {
	b.put(nil)
	if c := b.pool.rt.Checker(); c != nil {
		c.Released(nil, core.Resource{Kind: core.DeviceMemory, Name: b.addr, Device: b.pool.dev.User, Pooled: true})
	}
}

// queueFree puts the free of b on a stream, as the task of a tag.
func (b *poolBlock) queueFree(api string, t *core.Thread, s *core.Stream, tag driver.Tag) *core.Error {
	b.begun.Add(1)
	op := driver.Op{Kind: driver.OpFunc, Fn: nothing, Done: b.done, Tag: tag}
	s.Put(api, t, core.Task{Op: op, Kind: observe.Other, Outside: true})
	b.put(s)
	return nil
}

func nothing() {}

// freeLater frees memory outside pools when the stream reaches the task. Its result is not reported.
func freeLater(t *core.Thread, api string, ptr core.Addr, stream core.Handle) *core.Error {
	t.Warn(core.StrayFree, ptr, 0, "%s", api)
	th := &core.Thread{Runtime: t.Runtime, Shared: true}
	err := t.LaunchHostFunc(stream, func(p core.Addr) {
		if e := free(th, api, "ptr", p); e != nil {
			th.LogError(e)
		}
	}, ptr)
	if err != nil {
		err.API = api
	}
	return err
}

// MemPoolTrimTo is aclrtMemPoolTrimTo. It keeps memory whose free a stream has not reached.
func MemPoolTrimTo(t *core.Thread, memPool core.Handle, minBytesToKeep uint64) *core.Error {
	const api = "aclrtMemPoolTrimTo"
	if err := checkMemPoolTrimTo(t, memPool, minBytesToKeep); err != nil {
		return err
	}
	p := memoryOf(t.Runtime).pools.table.Get(memPool)
	if p == nil {
		return noPool(api, memPool)
	}
	if minBytesToKeep > p.max {
		return core.Fail(api, abi.ErrRTInternalError, "minBytesToKeep", "%s are more than the pool may have, %s",
			byteCount(minBytesToKeep), byteCount(p.max))
	}
	var reserved, used uint64
	core.Locked(&p.mu, func() { reserved, used = p.reserved.now, p.used.now })
	if minBytesToKeep >= reserved {
		return nil
	}
	if minBytesToKeep < used {
		return core.Fail(api, abi.ErrRTInternalError, "minBytesToKeep",
			"%s are less than the program uses of the pool, %s", byteCount(minBytesToKeep), byteCount(used))
	}
	p.trim(func(size uint64) bool { return p.reserved.now-size >= minBytesToKeep }) // lockcheck: trim locks mu
	return nil
}
