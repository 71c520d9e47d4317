package core

import (
	"sync"
	"sync/atomic"
)

// allocatorDesc describes an allocator of the program: functions, as their addresses, and the object they are called with. Nobody calls them
// here: they are for the workspace of operators, which ask for them with aclrtAllocatorGetByStream.
type allocatorDesc struct {
	object, alloc, free, advise, address atomic.Uintptr
}

// allocator is what was registered for a stream.
type allocator struct {
	desc                                 Handle
	object, alloc, free, advise, address Addr
}

// allocators are what was registered, by stream. The stream is but a key.
type allocators struct {
	mu       sync.Mutex
	byStream map[Handle]allocator // guarded by mu
}

// AllocatorCreateDesc is aclrtAllocatorCreateDesc; 0 when there are too many.
func (t *Thread) AllocatorCreateDesc() Handle {
	return memoryOf(t.rt).allocatorDescs.add(new(allocatorDesc))
}

// AllocatorDestroyDesc is aclrtAllocatorDestroyDesc. What was registered with the description stays.
func (t *Thread) AllocatorDestroyDesc(allocatorDesc Handle) *Error {
	const api = "aclrtAllocatorDestroyDesc"
	if err := t.checkAllocatorDestroyDesc(allocatorDesc); err != nil {
		return err
	}
	if memoryOf(t.rt).allocatorDescs.remove(allocatorDesc) == nil {
		return noDesc(api, allocatorDesc)
	}
	return nil
}

func noDesc(api string, h Handle) *Error {
	return invalid(api, "allocatorDesc", "%#x is no description of an allocator, or one that was destroyed", uintptr(h)).because(Gone, uintptr(h))
}

// allocatorDesc finds the description that a handle names.
func (t *Thread) allocatorDesc(api string, h Handle) (*allocatorDesc, *Error) {
	if h == 0 {
		return nil, isNull(api, "allocatorDesc")
	}
	if d := memoryOf(t.rt).allocatorDescs.get(h); d != nil {
		return d, nil
	}
	return nil, noDesc(api, h)
}

// describe puts value into the entry of a description.
func (t *Thread) describe(api string, desc Handle, arg string, value Addr, entry func(*allocatorDesc) *atomic.Uintptr) *Error {
	if desc == 0 {
		return isNull(api, "allocatorDesc")
	}
	if value == 0 {
		return isNull(api, arg)
	}
	d, err := t.allocatorDesc(api, desc)
	if err != nil {
		return err
	}
	entry(d).Store(value)
	return nil
}

// AllocatorSetObjToDesc is aclrtAllocatorSetObjToDesc.
func (t *Thread) AllocatorSetObjToDesc(desc Handle, allocator Addr) *Error {
	return t.describe("aclrtAllocatorSetObjToDesc", desc, "allocator", allocator, func(d *allocatorDesc) *atomic.Uintptr { return &d.object })
}

// AllocatorSetAllocFuncToDesc is aclrtAllocatorSetAllocFuncToDesc.
func (t *Thread) AllocatorSetAllocFuncToDesc(desc Handle, fn Addr) *Error {
	return t.describe("aclrtAllocatorSetAllocFuncToDesc", desc, "func", fn, func(d *allocatorDesc) *atomic.Uintptr { return &d.alloc })
}

// AllocatorSetFreeFuncToDesc is aclrtAllocatorSetFreeFuncToDesc.
func (t *Thread) AllocatorSetFreeFuncToDesc(desc Handle, fn Addr) *Error {
	return t.describe("aclrtAllocatorSetFreeFuncToDesc", desc, "func", fn, func(d *allocatorDesc) *atomic.Uintptr { return &d.free })
}

// AllocatorSetAllocAdviseFuncToDesc is aclrtAllocatorSetAllocAdviseFuncToDesc. It is the one entry that may be missing.
func (t *Thread) AllocatorSetAllocAdviseFuncToDesc(desc Handle, fn Addr) *Error {
	return t.describe("aclrtAllocatorSetAllocAdviseFuncToDesc", desc, "func", fn, func(d *allocatorDesc) *atomic.Uintptr { return &d.advise })
}

// AllocatorSetGetAddrFromBlockFuncToDesc is aclrtAllocatorSetGetAddrFromBlockFuncToDesc.
func (t *Thread) AllocatorSetGetAddrFromBlockFuncToDesc(desc Handle, fn Addr) *Error {
	return t.describe("aclrtAllocatorSetGetAddrFromBlockFuncToDesc", desc, "func", fn, func(d *allocatorDesc) *atomic.Uintptr { return &d.address })
}

// AllocatorRegister is aclrtAllocatorRegister: what the description says now is the allocator of a stream.
func (t *Thread) AllocatorRegister(stream, desc Handle) *Error {
	const api = "aclrtAllocatorRegister"
	if stream == 0 {
		return isNull(api, "stream")
	}
	d, err := t.allocatorDesc(api, desc)
	if err != nil {
		return err
	}
	a := allocator{desc, d.object.Load(), d.alloc.Load(), d.free.Load(), d.advise.Load(), d.address.Load()}
	for _, entry := range [...]struct {
		name  string
		value Addr
	}{{"an object", a.object}, {"a function to allocate", a.alloc}, {"a function to free", a.free}, {"a function for the address of a block", a.address}} {
		if entry.value == 0 {
			return invalid(api, "allocatorDesc", "%s is missing", entry.name)
		}
	}
	r := &memoryOf(t.rt).allocators
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byStream == nil {
		r.byStream = map[Handle]allocator{}
	}
	r.byStream[stream] = a
	return nil
}

// AllocatorGetByStream is aclrtAllocatorGetByStream. All but allocatorDesc may be nil.
func (t *Thread) AllocatorGetByStream(stream Handle, desc *Handle, object, allocFunc, freeFunc, allocAdviseFunc, getAddrFromBlockFunc *Addr) *Error {
	const api = "aclrtAllocatorGetByStream"
	if err := t.checkAllocatorGetByStream(stream, desc, object, allocFunc, freeFunc, allocAdviseFunc, getAddrFromBlockFunc); err != nil {
		return err
	}
	r := &memoryOf(t.rt).allocators
	r.mu.Lock()
	a, ok := r.byStream[stream]
	r.mu.Unlock()
	if !ok {
		return invalid(api, "stream", "%#x has no allocator; aclrtAllocatorRegister gives it one", uintptr(stream))
	}
	*desc = a.desc
	for _, o := range [...]struct {
		to   *Addr
		from Addr
	}{{object, a.object}, {allocFunc, a.alloc}, {freeFunc, a.free}, {allocAdviseFunc, a.advise}, {getAddrFromBlockFunc, a.address}} {
		if o.to != nil {
			*o.to = o.from
		}
	}
	return nil
}

// AllocatorUnregister is aclrtAllocatorUnregister. A stream that has none is fine.
func (t *Thread) AllocatorUnregister(stream Handle) *Error {
	if stream == 0 {
		return isNull("aclrtAllocatorUnregister", "stream")
	}
	r := &memoryOf(t.rt).allocators
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byStream, stream)
	return nil
}
