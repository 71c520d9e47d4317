// Package libcuda calls the functions of libcuda, NVIDIA's driver library. It loads the library by name; neither cgo
// nor a CUDA toolkit is needed. Methods have the names of the functions that they call, without the "cu". What is done
// with them, and when, is decided in package cuda.
package libcuda

import (
	"errors"
	"fmt"

	"ropeway/internal/driver"
	"ropeway/internal/kernel"
)

// API is what the driver asks of libcuda. There is the library itself, and one of ordinary memory for tests. Calls work
// on the context that is current on the calling thread.
type API interface {
	DriverVersion() (int, Result)
	DeviceCount() (int, Result)
	DeviceName(device int) (string, Result)
	PrimaryCtxRetain(device int) (context uintptr, r Result)
	PrimaryCtxRelease(device int) Result
	CtxSetCurrent(context uintptr) Result
	CtxEnablePeerAccess(of uintptr) Result // lets the current context reach the device of another
	CtxSynchronize() Result                // waits for everything on the current context

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
	// a word of pinned memory, after what is on the stream; not every libcuda can
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
	// in any order; its result is of no segment in particular
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
	FuncMaxThreads(kernel uintptr) (int, Result)               // in a block
	FuncAllowShared(kernel uintptr, bytes uint32) Result       // dynamic shared memory of a block
	FuncParams(kernel uintptr) (list []kernel.Param, r Result) // not every libcuda knows
	LaunchKernel(kernel uintptr, blocks, threads int, params []byte, stream uintptr) Result
	LaunchShaped(kernel uintptr, s *Shape, stream uintptr) Result

	// Graphs. A libcuda before CUDA 12.0 does not support them.
	GraphCreate(context uintptr, nodes []Node) (Graph, Result)
	// makes node i, a kernel, another one; launches before keep what they had
	GraphSetKernel(g *Graph, i int, context uintptr, n *Node) Result
	GraphLaunch(g *Graph, stream uintptr) Result // any context may be current
	GraphDestroy(g *Graph) Result                // what was launched goes on

	// Memory apart from its addresses. What an old libcuda has not got is not supported.
	MemAddressReserve(n, align uint64, at uintptr) (uintptr, Result) // at, if not 0, is a hint
	MemAddressFree(addr uintptr, n uint64) Result
	MemCreate(n uint64, at Place) (handle uint64, r Result)
	MemRelease(handle uint64) Result
	MemMap(addr uintptr, n, handle uint64) Result
	MemUnmap(addr uintptr, n uint64) Result
	MemSetAccess(addr uintptr, n uint64, to Place) Result
	MemExport(handle uint64) (fd int, r Result)
	MemImport(fd int) (handle uint64, r Result)
	IPCGetMemHandle(addr uintptr, handle *[IPCBytes]byte) Result // of memory that MemAlloc gave
	IPCOpenMemHandle(handle *[IPCBytes]byte) (addr uintptr, n uint64, r Result)
	IPCCloseMemHandle(addr uintptr) Result
	ConcurrentManaged(device int) (bool, Result) // the host can use managed memory while the GPU does
	MemAllocManaged(n uint64) (uintptr, Result)  // to be freed with MemFree

	Describe(r Result) (name, text string)
}

// EventKind is what an event is good for.
type EventKind uint8

// The kinds of events.
const (
	// it is queried, and no thread sleeps until it happens, which makes it cheaper to record
	AskedEvent EventKind = iota
	SleptEvent           // one may sleep until it happens
	TimedEvent           // and its time can be read
	EventKinds
)

// Shape says how a kernel of a program is launched.
type Shape struct {
	Blocks, Threads [3]uint32
	Shared          uint32  // bytes of dynamic shared memory
	Together        bool    // all blocks run at the same time
	Args            uintptr // where the parameters are, in memory that is not Go's own
	Bytes           uint64
}

// Node is what one node of a graph does: a kernel, or if that is 0, a fill, or if that has no width, a copy.
type Node struct {
	Kernel uintptr
	Shape  Shape

	Dst, Src uintptr
	N        uint64 // bytes of a copy, values of a fill
	Value    uint32
	Width    uint32 // bytes of a value

	Level int // it comes after the nodes of all lower levels; they are numbered from 0, without gaps
}

// Graph is a graph that can be launched.
type Graph struct {
	Exec, Template uintptr
	Nodes          []uintptr
}

// Place is where memory is made, or what may use it: the number of a GPU, or the host.
type Place int

// HostPlace is the host.
const HostPlace Place = -1

// IPCBytes is the size of a handle by which another process opens an allocation.
const IPCBytes = 64

// Copy2D says what a 2-D copy does.
type Copy2D struct {
	Dst, Src           uintptr
	DstPitch, SrcPitch uint64
	Width, Height      uint64
}

// Result is what a function of libcuda returns.
type Result int32

// The results that mean something to the driver.
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

// Sticky reports whether a context is of no use after r: everything that comes later fails in the same way.
func (r Result) Sticky() bool {
	switch r {
	case ECCUncorrectable, NVLinkError, IllegalAddress, LaunchTimeout, ContextDestroyed, DeviceAssert, LaunchFailed,
		UnknownError:
		return true
	}
	return r >= HardwareStack && r < LaunchFailed // kinds of faults of a kernel
}

// Kind is the driver's error that r amounts to.
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

// ErrRefused is a refusal that no program should see: the driver asked for what it must not.
var ErrRefused = errors.New("CUDA refused a call")

// Failed is the error for a call that returned r, nil if that is success.
func Failed(a API, call string, r Result) error {
	if r == Success {
		return nil
	}
	name, text := a.Describe(r)
	return fmt.Errorf("%w: %s: %s: %s", r.Kind(), call, name, text)
}

// Absent is why there are no GPUs to use, in one line. It is a driver.ErrUnsupported.
type Absent string

func (a Absent) Error() string { return string(a) }
func (a Absent) Unwrap() error { return driver.ErrUnsupported }
