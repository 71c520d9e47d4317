//go:build cgo

package main

// #include <stdlib.h>
// #include "shim/entry.h"
//
// // Of the leak sanitizer, if the program has it: it does not see that Go memory points to these strings.
// extern void __lsan_ignore_object(const void *) __attribute__((weak));
//
// static void known(const char *text)
// {
// 	if (__lsan_ignore_object)
// 		__lsan_ignore_object(text);
// }
import "C"

import (
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"ropeway/internal/core"
)

// thread is a thread of the program. The shim holds its address for as long as the thread lives, so it is pinned and
// known here.
type thread struct {
	*core.Thread
	pin     runtime.Pinner
	message *C.char // last result of aclGetRecentErrMsg
	sites   *sites  // call sites; nil unless the program is recorded
}

// threads are all threads of the program: the shim's pointers do not keep them alive.
var threads struct {
	mu     sync.Mutex
	live   map[*thread]struct{}     // guarded by mu
	byID   map[uint32]*thread       // guarded by mu; by the id of the system
	inside map[uint32]*core.Context // guarded by mu; those that run a host function of a context
}

// enter registers a thread; it returns nil if the runtime cannot be opened. Slots are those of ROPEWAY_ENTER.
func enter(a *slots) *thread {
	rt := opening.runtime()
	if rt == nil {
		return nil
	}
	id := uint32(a[1])
	t := &thread{Thread: rt.NewThread(id)}
	t.SetPthread(a[0])
	if opening.tracer != nil {
		opening.tracer.Thread(id)
		t.sites = &sites{at: pointer[C.ropeway_site](a[2])}
		*pointer[int32](a[3]) = 1
	}
	t.pin.Pin(t)
	threads.mu.Lock()
	defer threads.mu.Unlock()
	if threads.live == nil {
		threads.live, threads.byID = map[*thread]struct{}{}, map[uint32]*thread{}
		threads.inside = map[uint32]*core.Context{}
		rt.CallHostFuncs(callInside)
	}
	threads.live[t], threads.byID[id] = struct{}{}, t
	t.Lend(threads.inside[id])
	return t
}

// callInside calls a host function with the context of its stream as the current context of the thread.
func callInside(c *core.Context, fn func(core.Addr), data core.Addr) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	id := uint32(unix.Gettid())
	lend(id, c)
	defer lend(id, nil)
	fn(data)
}

// lend sets a temporary current context for the calling thread, registered or not, whose id is given; nil removes it.
func lend(id uint32, c *core.Context) {
	threads.mu.Lock()
	defer threads.mu.Unlock()
	if c == nil {
		delete(threads.inside, id)
	} else {
		threads.inside[id] = c
	}
	if t := threads.byID[id]; t != nil {
		t.Lend(c)
	}
}

// leave removes a thread that ends.
func (t *thread) leave() {
	t.Close()
	if opening.tracer != nil {
		opening.tracer.Left(t.ID())
	}
	C.free(unsafe.Pointer(t.message))
	threads.mu.Lock()
	delete(threads.live, t)
	if threads.byID[t.ID()] == t {
		delete(threads.byID, t.ID())
	}
	threads.mu.Unlock()
	t.pin.Unpin()
}

// text returns a string for the program, which is valid until the thread's next call of text. "" is NULL.
func (t *thread) text(s string) uint64 {
	C.free(unsafe.Pointer(t.message))
	t.message = nil
	if s != "" {
		t.message = cString(s)
	}
	return uint64(uintptr(unsafe.Pointer(t.message)))
}

// cString returns a copy of s in C memory. It is freed with its owner, or never.
func cString(s string) *C.char {
	p := C.CString(s)
	C.known(p)
	return p
}

// lastingTexts are the strings that the program may keep for ever: a *C.char by its Go string. There are few.
var lastingTexts sync.Map

// lastingText returns a string that the program may keep for ever.
func lastingText(s string) uint64 {
	p, ok := lastingTexts.Load(s)
	if !ok {
		fresh := cString(s)
		if p, ok = lastingTexts.LoadOrStore(s, fresh); ok {
			C.free(unsafe.Pointer(fresh))
		}
	}
	return uint64(uintptr(unsafe.Pointer(p.(*C.char))))
}
