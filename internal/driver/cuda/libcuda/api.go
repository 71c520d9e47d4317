// Package libcuda calls the functions of libcuda, NVIDIA's driver library. It loads the library by name; neither cgo
// nor a CUDA toolkit is needed. Methods have the names of the functions that they call, without the "cu". Package cuda
// decides when to call them.
package libcuda

import (
	"errors"
	"fmt"

	"ropeway/internal/driver"
	"ropeway/internal/kernel"
)

// API is the part of libcuda that the driver uses. The library itself implements it, and a fake for tests in ordinary
// memory. Calls use the current context of the calling thread.
type API interface {
	DriverVersion() (int, Result)
	DeviceCount() (int, Result)
	DeviceName(device int) (string, Result)
	PrimaryCtxRetain(device int) (context uintptr, r Result)
	PrimaryCtxRelease(device int) Result
	CtxSetCurrent(context uintptr) Result
	CtxEnablePeerAccess(of uintptr) Result // lets the current context access the device of another
	CtxSynchronize() Result                // waits for all work in the current context

	MemInfo() (free, total uint64, r Result)
	MemAlloc(n uint64) (uintptr, Result)
	MemFree(addr uintptr) Result
	MemHostAlloc(n uint64) (uintptr, Result)
	MemFreeHost(addr uintptr) Result
	MemHostRegister(addr uintptr, n uint64) (onDevice uintptr, r Result)
	MemHostUnregister(addr uintptr) Result

	StreamCreate(priority int) (uintptr, Result) // 0 most urgent .. 7
	StreamDestroy(stream uintptr) Result
	StreamQuery(stream uintptr) Result
	StreamWaitEvent(stream, event uintptr) Result
	// writes a word of pinned memory after the work on the stream; not every libcuda can
	StreamWriteValue(stream, addr uintptr, value uint32) Result
	EventCreate(kind EventKind) (uintptr, Result)
	EventDestroy(event uintptr) Result
	EventRecord(event, stream uintptr) Result
	EventQuery(event uintptr) Result
	EventSynchronize(event uintptr) Result
	// between two timed events that have happened; negative if to came first
	EventElapsedTime(from, to uintptr) (ms float32, r Result)

	MemcpyAsync(dst, src uintptr, n uint64, stream uintptr) Result // any context may be current
	HasMemcpyBatch() bool
	// in any order; the result does not tell which segment failed
	MemcpyBatchAsync(list []driver.Segment, stream uintptr) Result
	Memcpy2DAsync(c *Copy2D, stream uintptr) Result
	MemsetD8Async(dst uintptr, value byte, n uint64, stream uintptr) Result
	MemsetD32Async(dst uintptr, value uint32, n uint64, stream uintptr) Result

	Multiprocessors(device int) (int, Result)
	Capability(device int) (major, minor int, r Result)
	// PTX, a cubin or a fatbin; the module belongs to the current context, and the log is that of the compiler
	ModuleLoad(image []byte) (module uintptr, log string, r Result)
	ModuleUnload(module uintptr) Result
	ModuleFunction(module uintptr, name string) (uintptr, Result)
	ModuleGlobal(module uintptr, name string) (addr uintptr, n uint64, r Result)
	FuncMaxThreads(kernel uintptr) (int, Result)               // most threads of a block
	FuncAllowShared(kernel uintptr, bytes uint32) Result       // dynamic shared memory of a block
	FuncParams(kernel uintptr) (list []kernel.Param, r Result) // not every libcuda knows
	LaunchKernel(kernel uintptr, blocks, threads int, params []byte, stream uintptr) Result
	LaunchShaped(kernel uintptr, s *Shape, stream uintptr) Result

	// Graphs. A libcuda before CUDA 12.0 does not support them.
	GraphCreate(context uintptr, nodes []Node) (Graph, Result)
	// replaces node i, a kernel; earlier launches are not affected
	GraphSetKernel(g *Graph, i int, context uintptr, n *Node) Result
	GraphLaunch(g *Graph, stream uintptr) Result // any context may be current
	GraphDestroy(g *Graph) Result                // running launches continue

	// Virtual memory. Functions that an old libcuda lacks return NotSupported.
	MemAddressReserve(n, align uint64, at uintptr) (uintptr, Result) // at, if not 0, is a hint
	MemAddressFree(addr uintptr, n uint64) Result
	MemCreate(n uint64, at Place) (handle uint64, r Result)
	MemRelease(handle uint64) Result
	MemMap(addr uintptr, n, handle uint64) Result
	MemUnmap(addr uintptr, n uint64) Result
	MemSetAccess(addr uintptr, n uint64, to Place) Result
	MemExport(handle uint64) (fd int, r Result)
	MemImport(fd int) (handle uint64, r Result)
	IPCGetMemHandle(addr uintptr, handle *[IPCBytes]byte) Result // of memory from MemAlloc
	IPCOpenMemHandle(handle *[IPCBytes]byte) (addr uintptr, n uint64, r Result)
	IPCCloseMemHandle(addr uintptr) Result
	ConcurrentManaged(device int) (bool, Result) // the host may use managed memory at the same time as the GPU
	MemAllocManaged(n uint64) (uintptr, Result)  // to be freed with MemFree

	Describe(r Result) (name, text string)
}

// EventKind is the use of an event.
type EventKind uint8

// The kinds of events.
const (
	// only queried: no thread sleeps until it happens, so it is cheaper to record
	AskedEvent EventKind = iota
	SleptEvent           // a thread may sleep until it happens
	TimedEvent           // a thread may sleep until it happens, and its time can be read
	EventKinds
)

// Shape has the parameters of a launch of a program's kernel.
type Shape struct {
	Blocks, Threads [3]uint32
	Shared          uint32  // bytes of dynamic shared memory
	Together        bool    // all blocks run at the same time
	Args            uintptr // address of the arguments, outside Go's heap
	Bytes           uint64
}

// Node is a node of a graph: a kernel or, if Kernel is 0, a fill or, if Width is 0, a copy.
type Node struct {
	Kernel uintptr
	Shape  Shape

	Dst, Src uintptr
	N        uint64 // bytes of a copy, values of a fill
	Value    uint32
	Width    uint32 // bytes of a value

	Level int // the node runs after all nodes of lower levels; levels begin at 0, without gaps
}

// Graph is a graph that can be launched.
type Graph struct {
	Exec, Template uintptr
	Nodes          []uintptr
}

// Place is the number of a GPU, or the host: where memory is created, or what may access it.
type Place int

// HostPlace is the host.
const HostPlace Place = -1

// IPCBytes is the size of a handle by which another process opens an allocation.
const IPCBytes = 64

// Copy2D has the parameters of a 2-D copy.
type Copy2D struct {
	Dst, Src           uintptr
	DstPitch, SrcPitch uint64
	Width, Height      uint64
}

// Result is the return code of a function of libcuda.
type Result int32

// The results that the driver distinguishes.
const (
	Success            Result = 0
	OutOfMemory        Result = 2
	NotInitialized     Result = 3
	Deinitialized      Result = 4
	NoDevice           Result = 100
	InvalidDevice      Result = 101
	InvalidContext     Result = 201
	ECCUncorrectable   Result = 214
	NVLinkError        Result = 220
	AlreadyMapped      Result = 208
	NoBinary           Result = 209
	InvalidImage       Result = 200
	InvalidPTX         Result = 218
	NoCompiler         Result = 221
	NewerPTX           Result = 222
	InvalidSource      Result = 300
	NotFound           Result = 500
	InvalidHandle      Result = 400
	NotReady           Result = 600
	IllegalAddress     Result = 700
	LaunchTimeout      Result = 702
	PeerEnabled        Result = 704
	ContextDestroyed   Result = 709
	DeviceAssert       Result = 710
	AlreadyRegistered  Result = 712
	HardwareStack      Result = 714
	IllegalInstruction Result = 715
	TooManyTogether    Result = 720
	LaunchFailed       Result = 719
	NotSupported       Result = 801
	UnknownError       Result = 999
)

// Sticky reports whether r breaks the context: all later calls fail in the same way.
func (r Result) Sticky() bool {
	switch r {
	case ECCUncorrectable, NVLinkError, IllegalAddress, LaunchTimeout, ContextDestroyed, DeviceAssert, LaunchFailed,
		UnknownError:
		return true
	}
	return r >= HardwareStack && r < LaunchFailed // kinds of faults of a kernel
}

// Kind returns the driver's error for r.
func (r Result) Kind() error {
	switch r {
	case OutOfMemory:
		return driver.ErrNoMemory
	case NotInitialized, Deinitialized:
		return driver.ErrClosed
	case NoDevice, InvalidDevice, NotSupported:
		return driver.ErrUnsupported
	}
	if r.Sticky() {
		return driver.ErrLost
	}
	return ErrRefused
}

// ErrRefused is a refusal that no program should see: the driver's call was invalid.
var ErrRefused = errors.New("CUDA refused a call")

// Failed returns the error for a call that returned r; nil for success.
func Failed(a API, call string, r Result) error {
	if r == Success {
		return nil
	}
	name, text := a.Describe(r)
	return fmt.Errorf("%w: %s: %s: %s", r.Kind(), call, name, text)
}

// Absent is the reason why no GPU can be used, in one line. It wraps driver.ErrUnsupported.
type Absent string

func (a Absent) Error() string { return string(a) }
func (a Absent) Unwrap() error { return driver.ErrUnsupported }
