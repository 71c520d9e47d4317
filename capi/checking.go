//go:build cgo

package main

// #include <stdlib.h>
// #include "shim/entry.h"
//
// static void set_spans(const ropeway_checker *c, const uint64_t *pairs, size_t n) { c->spans(pairs, n); }
// static void set_device(const ropeway_checker *c, uint64_t low, uint64_t high) { c->device(low, high); }
// static void set_registered(const ropeway_checker *c, const uint64_t *pairs, size_t n) { c->registered(pairs, n); }
// static void set_aliases(const ropeway_checker *c, const uint64_t *pairs, size_t n) { c->aliases(pairs, n); }
// static void set_pinned(const ropeway_checker *c, uint64_t low, uint64_t high) { c->pinned(low, high); }
// static void set_pages(const ropeway_checker *c, uint64_t low, uint64_t high, int there)
// {
// 	c->pages(low, high, there);
// }
// static const char *frame_file(const ropeway_checker *c, uint32_t name) { return c->file(name); }
// static const char *frame_name(const ropeway_checker *c, uint32_t name) { return c->name(name); }
import "C"

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"unsafe"

	"ropeway/internal/check"
	"ropeway/internal/core"
)

// checker has the methods of the runtime's checker that its C side (capi/check) calls. Addresses are those of the
// program. Methods are called with no lock of ours held, by any thread.
type checker interface {
	// Touch reports that the host is about to access n closed bytes at addr; n is 0 if unknown. pc is the
	// instruction, 0 for a system call. by has the stack of the access, only during the call; it is not in a function
	// of the API.
	Touch(addr uintptr, n uint64, write bool, pc uintptr, by core.Caller, thread uint32) Touch
	// Stepped closes the memory that Touch opened for one instruction.
	Stepped(t Touch)
	// Vanish reports that the program is about to remove the n bytes at addr. by is as for Touch.
	Vanish(addr uintptr, n uint64, how check.Way, by core.Caller, thread uint32)
	// Window returns the range of all pinned memory.
	Window() (low, high uintptr)
	// OpenKnown opens all memory that is known to be complete.
	OpenKnown()
	// Note prints a limitation of the checker.
	Note(text string)
	// InFlight reports whether work on some of the bytes is not known to be complete.
	InFlight(addr uintptr, n uint64) bool
	// Complete marks finished work on the bytes as known to be complete.
	Complete(addr uintptr, n uint64)
	// Findings returns the number of findings so far, Report all of them as a JSON array.
	Findings() int
	Report() []byte
	// Tell starts or ends a period in which the program prints findings; News returns the text of those since its
	// last call.
	Tell(change int)
	News() string
}

// Touch is the decision about an access: see ropeway_touch in shim/entry.h.
type Touch = struct {
	What   uint32 // 0: the program's own fault, 1: it is open, 2: it is open for one instruction
	Prot   uint32
	Page   uintptr
	Length uint64
	Delta  uintptr
}

// waitedFor has the function that waits for each kind of object.
var waitedFor = [...]uint32{
	C.ROPEWAY_WAIT_STREAM: C.ROPEWAY_aclrtSynchronizeStream,
	C.ROPEWAY_WAIT_EVENT:  C.ROPEWAY_aclrtSynchronizeEvent,
	C.ROPEWAY_WAIT_DEVICE: C.ROPEWAY_aclrtSynchronizeDevice,
	C.ROPEWAY_WAIT_REPORT: C.ROPEWAY_aclrtProcessReport,
}

// caller reports to the checker what a thread is doing: core.Caller over the record that the C side keeps.
type caller C.ropeway_call

func (c *caller) Calling() (function uint32, arguments []uint64, in bool) {
	f := uint32(c.function)
	if f == C.ROPEWAY_WAIT { // a slice of a wait by a function of the API
		a := unsafe.Slice((*uint64)(c.slots), 2)
		if a[0] >= uint64(len(waitedFor)) {
			return f, nil, false
		}
		f = waitedFor[a[0]]
		return f, a[1 : 1+min(1, len(parameters[f]))], true
	}
	if f >= uint32(len(parameters)) {
		return f, nil, false
	}
	return f, unsafe.Slice((*uint64)(c.slots), len(parameters[f])), true
}

func (c *caller) Stack(pcs []uintptr) int {
	n := min(len(pcs), int(c.depth), len(c.stack))
	for i := range n {
		pcs[i] = uintptr(c.stack[i])
	}
	return n
}

func (c *caller) Frames(named [][2]uint32) int {
	n := min(len(named), int(c.named), len(c.names))
	for i := range n {
		named[i] = [2]uint32{uint32(c.names[i].name), uint32(c.names[i].line) &^ C.ROPEWAY_DROPPED}
	}
	return n
}

// ReturnsCode reports whether the function that the thread is in returns a code.
func (c *caller) ReturnsCode() bool {
	f, _, in := c.Calling()
	return in && returnsCode[f]
}

// Drops reports whether the program ignores the result of the call, if an interpreter provides that.
func (c *caller) Drops() (drops, interpreted bool) {
	return c.named > 0 && c.names[0].line&C.ROPEWAY_DROPPED != 0, c.named > 0
}

// Ignored reports whether the program asked not to judge it at the moment (ropeway/check.h).
func (c *caller) Ignored() bool { return c.ignored != 0 }

// ID returns the system's number of the thread.
func (c *caller) ID() uint32 { return uint32(c.thread) }

// checkerC has the functions of the C side; nil with checking off.
var checkerC atomic.Pointer[C.ropeway_checker]

// frontEnd implements check.FrontEnd for the C library.
type frontEnd struct{}

// Describe returns the name of a call, and its arguments with their names, for messages.
func (frontEnd) Describe(function uint32, arguments []uint64) (name, text string) {
	if function >= uint32(len(functionNames)) {
		return "", ""
	}
	var b strings.Builder
	for i, p := range parameters[function] {
		if i >= len(arguments) {
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(p.name)
		b.WriteByte('=')
		b.WriteString(p.text(arguments[i]))
	}
	return functionNames[function], b.String()
}

// PythonArguments returns the arguments of a call as Python passed them, without those that C keeps in its own
// memory.
func (frontEnd) PythonArguments(function uint32, arguments []uint64) string {
	if function >= uint32(len(functionNames)) {
		return ""
	}
	var words []string
	for _, a := range pythonArguments[function] {
		switch {
		case a.slot < 0:
			words = append(words, a.name+"=…")
		case a.slot < len(arguments):
			words = append(words, a.name+"="+parameters[function][a.slot].text(arguments[a.slot]))
		}
	}
	return strings.Join(words, ", ")
}

// FrameName returns the name that an interpreter gave a frame.
func (frontEnd) FrameName(id uint32) (file, function string) {
	c := checkerC.Load()
	if c == nil {
		return "", ""
	}
	return C.GoString(C.frame_file(c, C.uint32_t(id))), C.GoString(C.frame_name(c, C.uint32_t(id)))
}

// SetSpans sets the addresses that the C side watches: pairs of first address and end, sorted and disjoint. One call
// at a time.
func (frontEnd) SetSpans(pairs []uint64) {
	c := checkerC.Load()
	if c == nil {
		return
	}
	C.set_spans(c, (*C.uint64_t)(unsafe.SliceData(pairs)), C.size_t(len(pairs)/2))
}

// SetDeviceSpan sets the range of device memory.
func (frontEnd) SetDeviceSpan(lo, hi uintptr) {
	if c := checkerC.Load(); c != nil {
		C.set_device(c, C.uint64_t(lo), C.uint64_t(hi))
	}
}

// SetRegistered sets the registered memory of the program, and its device addresses.
func (frontEnd) SetRegistered(pairs, aliases []uint64) {
	c := checkerC.Load()
	if c == nil {
		return
	}
	C.set_registered(c, (*C.uint64_t)(unsafe.SliceData(pairs)), C.size_t(len(pairs)/2))
	C.set_aliases(c, (*C.uint64_t)(unsafe.SliceData(aliases)), C.size_t(len(aliases)/2))
}

// wayOf returns how memory that the C side reports was freed.
func wayOf(kind uint64, addr, n, argument uint64) check.Way {
	switch kind {
	case C.ROPEWAY_REALLOCATED:
		return check.Way{Kind: check.Reallocated, Call: fmt.Sprintf("realloc(ptr=%#x, size=%d)", addr, argument)}
	case C.ROPEWAY_UNMAPPED:
		return check.Way{Kind: check.Unmapped, Call: fmt.Sprintf("munmap(addr=%#x, length=%d)", addr, n)}
	case C.ROPEWAY_MOVED:
		return check.Way{Kind: check.Moved,
			Call: fmt.Sprintf("mremap(old_address=%#x, old_size=%d, new_size=%d)", addr, n, argument)}
	case C.ROPEWAY_RETURNED:
		return check.Way{Kind: check.Returned}
	case C.ROPEWAY_REPLACED:
		return check.Way{Kind: check.Replaced, Call: fmt.Sprintf("mmap(addr=%#x, length=%d, MAP_FIXED)", addr, n)}
	}
	return check.Way{Kind: check.Freed, Call: fmt.Sprintf("free(ptr=%#x)", addr)}
}

// SetPinnedSpan sets the range of pinned memory.
func (frontEnd) SetPinnedSpan(lo, hi uintptr) {
	if c := checkerC.Load(); c != nil {
		C.set_pinned(c, C.uint64_t(lo), C.uint64_t(hi))
	}
}

// SetPages sets whether pages of pinned memory have bytes of an allocation. One call at a time.
func (frontEnd) SetPages(lo, hi uintptr, there bool) {
	yes := C.int(0)
	if there {
		yes = 1
	}
	if c := checkerC.Load(); c != nil {
		C.set_pages(c, C.uint64_t(lo), C.uint64_t(hi), yes)
	}
}

// checking returns the checker of the process, or nil.
func (p *process) checking() checker {
	if p.runtime() == nil || p.check == nil {
		return nil
	}
	return p.check
}

// ballast makes garbage collections rarer: the checker's records of copies are short-lived and the rest of the heap
// is small, so it would be collected every few thousand copies. It is never accessed, so it takes addresses but no
// memory.
var ballast []byte

const ballastSize = 32 << 20

// startChecking connects the runtime's checker, if it has one, to the C side.
func (p *process) startChecking() {
	if p.rt == nil {
		return
	}
	if p.check, _ = p.rt.Checker().(*check.Checker); p.check != nil {
		ballast = make([]byte, ballastSize)
		p.check.SetFrontEnd(frontEnd{})
		if checkerC.Load() != nil {
			p.check.CloseMemory()
		}
	}
}

// injected returns the code with which a call must fail (--inject), or 0. A function that returns no code cannot
// fail.
func (p *process) injected(function uint32, t *thread, a *slots) uint64 {
	if !p.check.Injecting() || !returnsCode[function] {
		return 0
	}
	var stream core.Handle
	for i, q := range parameters[function] {
		if q.name == "stream" {
			stream = core.Handle(a[i])
		}
	}
	err := p.check.Before(functionNames[function], stream)
	if err == nil {
		return 0
	}
	return uint64(t.Done(err))
}

// askChecking carries out requests of the C side of the checker.
func askChecking(function uint32, t *thread, a *slots) uint64 {
	if function == C.ROPEWAY_CHECKER {
		checkerC.Store(pointer[C.ropeway_checker](a[0]))
		return 0
	}
	c := opening.checking()
	if c == nil {
		if function == C.ROPEWAY_NOTE {
			fmt.Fprintln(os.Stderr, "ropeway:", C.GoString(pointer[C.char](a[0])))
		}
		return 0
	}
	switch function {
	case C.ROPEWAY_WATCH:
		t.SetCaller(pointer[caller](a[0]))
	case C.ROPEWAY_TOUCH:
		by := pointer[caller](a[4])
		touch := c.Touch(uintptr(a[0]), a[1], a[2] != 0, uintptr(a[3]), by, by.ID())
		*pointer[C.ropeway_touch](a[5]) = C.ropeway_touch{
			what: C.uint32_t(touch.What), prot: C.uint32_t(touch.Prot),
			page: C.uint64_t(touch.Page), length: C.uint64_t(touch.Length), delta: C.uint64_t(touch.Delta),
		}
	case C.ROPEWAY_STEPPED:
		s := pointer[C.ropeway_touch](a[0])
		c.Stepped(Touch{uint32(s.what), uint32(s.prot), uintptr(s.page), uint64(s.length), uintptr(s.delta)})
	case C.ROPEWAY_VANISH:
		by := pointer[caller](a[4])
		c.Vanish(uintptr(a[0]), a[1], wayOf(a[2], a[0], a[1], a[3]), by, by.ID())
	case C.ROPEWAY_OPEN_KNOWN:
		c.OpenKnown()
	case C.ROPEWAY_END:
		opening.rt.Ending(nil)
	case C.ROPEWAY_SPANS:
		low, high := c.Window()
		*pointer[[2]uint64](a[0]) = [2]uint64{uint64(low), uint64(high)}
	case C.ROPEWAY_NOTE:
		c.Note(C.GoString(pointer[C.char](a[0])))
	case C.ROPEWAY_IN_FLIGHT:
		if c.InFlight(uintptr(a[0]), a[1]) {
			return 1
		}
	case C.ROPEWAY_COMPLETE:
		c.Complete(uintptr(a[0]), a[1])
	case C.ROPEWAY_FINDINGS:
		return uint64(c.Findings())
	case C.ROPEWAY_TELL:
		c.Tell(int(int64(a[0])))
	case C.ROPEWAY_NEWS:
		if text := c.News(); text != "" {
			return uint64(uintptr(unsafe.Pointer(C.CString(text))))
		}
	case C.ROPEWAY_REPORT:
		return uint64(uintptr(unsafe.Pointer(C.CString(string(c.Report())))))
	}
	return 0
}
