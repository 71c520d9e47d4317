package memory

import (
	"sync"
	"sync/atomic"

	"ropeway/internal/core"
)

// allocatorDesc describes an allocator of the program: the addresses of its functions, and the object that they are
// called with. The core does not call them: operators get them with aclrtAllocatorGetByStream, for their workspace.
type allocatorDesc struct {
	object, alloc, free, advise, address atomic.Uintptr
}

// allocator is the allocator registered for a stream.
type allocator struct {
	desc                                 core.Handle
	object, alloc, free, advise, address core.Addr
}

// allocators holds the registered allocators by stream, which is only a key.
type allocators struct {
	mu       sync.Mutex
	byStream map[core.Handle]allocator // guarded by mu
}

// AllocatorCreateDesc is aclrtAllocatorCreateDesc; 0 when there are too many.
func AllocatorCreateDesc(t *core.Thread) core.Handle {
	return memoryOf(t.Runtime).allocatorDescs.Add(new(allocatorDesc))
}

// AllocatorDestroyDesc is aclrtAllocatorDestroyDesc. Allocators registered with the description stay.
func AllocatorDestroyDesc(t *core.Thread, allocatorDesc core.Handle) *core.Error {
	const api = "aclrtAllocatorDestroyDesc"
	if err := checkAllocatorDestroyDesc(t, allocatorDesc); err != nil {
		return err
	}
	if memoryOf(t.Runtime).allocatorDescs.Remove(allocatorDesc) == nil {
		return noDesc(api, allocatorDesc)
	}
	return nil
}

func noDesc(api string, h core.Handle) *core.Error {
	return core.Invalid(api, "allocatorDesc", "%#x is no description of an allocator, or one that was destroyed",
		uintptr(h)).Because(core.Gone, uintptr(h))
}

// allocatorDescOf returns the description of a handle.
func allocatorDescOf(t *core.Thread, api string, h core.Handle) (*allocatorDesc, *core.Error) {
	if d := memoryOf(t.Runtime).allocatorDescs.Get(h); d != nil {
		return d, nil
	}
	return nil, noDesc(api, h)
}

// describe sets an entry of a description to value.
func describe(t *core.Thread, api string, desc core.Handle, value core.Addr,
	entry func(*allocatorDesc) *atomic.Uintptr) *core.Error {
	d, err := allocatorDescOf(t, api, desc)
	if err != nil {
		return err
	}
	entry(d).Store(value)
	return nil
}

// AllocatorSetObjToDesc is aclrtAllocatorSetObjToDesc.
func AllocatorSetObjToDesc(t *core.Thread, desc core.Handle, allocator core.Addr) *core.Error {
	if err := checkAllocatorSetObjToDesc(t, desc, allocator); err != nil {
		return err
	}
	return describe(t, "aclrtAllocatorSetObjToDesc", desc, allocator,
		func(d *allocatorDesc) *atomic.Uintptr { return &d.object })
}

// AllocatorSetAllocFuncToDesc is aclrtAllocatorSetAllocFuncToDesc.
func AllocatorSetAllocFuncToDesc(t *core.Thread, desc core.Handle, fn core.Addr) *core.Error {
	if err := checkAllocatorSetAllocFuncToDesc(t, desc, fn); err != nil {
		return err
	}
	return describe(t, "aclrtAllocatorSetAllocFuncToDesc", desc, fn,
		func(d *allocatorDesc) *atomic.Uintptr { return &d.alloc })
}

// AllocatorSetFreeFuncToDesc is aclrtAllocatorSetFreeFuncToDesc.
func AllocatorSetFreeFuncToDesc(t *core.Thread, desc core.Handle, fn core.Addr) *core.Error {
	if err := checkAllocatorSetFreeFuncToDesc(t, desc, fn); err != nil {
		return err
	}
	return describe(t, "aclrtAllocatorSetFreeFuncToDesc", desc, fn,
		func(d *allocatorDesc) *atomic.Uintptr { return &d.free })
}

// AllocatorSetAllocAdviseFuncToDesc is aclrtAllocatorSetAllocAdviseFuncToDesc. It is the one entry that may be missing.
func AllocatorSetAllocAdviseFuncToDesc(t *core.Thread, desc core.Handle, fn core.Addr) *core.Error {
	if err := checkAllocatorSetAllocAdviseFuncToDesc(t, desc, fn); err != nil {
		return err
	}
	return describe(t, "aclrtAllocatorSetAllocAdviseFuncToDesc", desc, fn,
		func(d *allocatorDesc) *atomic.Uintptr { return &d.advise })
}

// AllocatorSetGetAddrFromBlockFuncToDesc is aclrtAllocatorSetGetAddrFromBlockFuncToDesc.
func AllocatorSetGetAddrFromBlockFuncToDesc(t *core.Thread, desc core.Handle, fn core.Addr) *core.Error {
	if err := checkAllocatorSetGetAddrFromBlockFuncToDesc(t, desc, fn); err != nil {
		return err
	}
	return describe(t, "aclrtAllocatorSetGetAddrFromBlockFuncToDesc", desc, fn,
		func(d *allocatorDesc) *atomic.Uintptr { return &d.address })
}

// AllocatorRegister is aclrtAllocatorRegister: the current content of the description becomes the allocator of a
// stream.
func AllocatorRegister(t *core.Thread, stream, desc core.Handle) *core.Error {
	const api = "aclrtAllocatorRegister"
	if err := checkAllocatorRegister(t, stream, desc); err != nil {
		return err
	}
	d, err := allocatorDescOf(t, api, desc)
	if err != nil {
		return err
	}
	a := allocator{desc, d.object.Load(), d.alloc.Load(), d.free.Load(), d.advise.Load(), d.address.Load()}
	for _, entry := range [...]struct {
		name  string
		value core.Addr
	}{{"an object", a.object}, {"a function to allocate", a.alloc}, {"a function to free",
		a.free}, {"a function for the address of a block", a.address}} {
		if entry.value == 0 {
			return core.Invalid(api, "allocatorDesc", "%s is missing", entry.name)
		}
	}
	r := &memoryOf(t.Runtime).allocators
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byStream == nil {
		r.byStream = map[core.Handle]allocator{}
	}
	r.byStream[stream] = a
	return nil
}

// AllocatorGetByStream is aclrtAllocatorGetByStream. All but allocatorDesc may be nil.
func AllocatorGetByStream(t *core.Thread, stream core.Handle, desc *core.Handle, object, allocFunc, freeFunc,
	allocAdviseFunc, getAddrFromBlockFunc *core.Addr) *core.Error {
	const api = "aclrtAllocatorGetByStream"
	if err := checkAllocatorGetByStream(t, stream, desc, object, allocFunc, freeFunc, allocAdviseFunc,
		getAddrFromBlockFunc); err != nil {
		return err
	}
	r := &memoryOf(t.Runtime).allocators
	r.mu.Lock()
	a, ok := r.byStream[stream]
	r.mu.Unlock()
	if !ok {
		return core.Invalid(api, "stream", "%#x has no allocator; aclrtAllocatorRegister gives it one", uintptr(stream))
	}
	*desc = a.desc
	for _, o := range [...]struct {
		to   *core.Addr
		from core.Addr
	}{{object, a.object}, {allocFunc, a.alloc}, {freeFunc, a.free}, {allocAdviseFunc, a.advise}, {getAddrFromBlockFunc,
		a.address}} {
		if o.to != nil {
			*o.to = o.from
		}
	}
	return nil
}

// AllocatorUnregister is aclrtAllocatorUnregister. A stream that has none is fine.
func AllocatorUnregister(t *core.Thread, stream core.Handle) *core.Error {
	if err := checkAllocatorUnregister(t, stream); err != nil {
		return err
	}
	r := &memoryOf(t.Runtime).allocators
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byStream, stream)
	return nil
}
