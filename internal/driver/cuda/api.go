package cuda

import (
	"errors"
	"fmt"

	"ropeway/internal/driver"
	"ropeway/internal/kernel"
)

// api is what the driver asks of libcuda. There is the library itself, and one of ordinary memory for tests. Calls work
// on the context that is current on the calling thread; see gpu.enter.
type api interface {
	version() (int, result)
	devices() (int, result)
	deviceName(device int) (string, result)
	retain(device int) (context uintptr, r result)
	release(device int) result
	setContext(context uintptr) result
	enablePeer(of uintptr) result // lets the current context reach the device of another
	settle() result               // waits for everything on the current context

	memInfo() (free, total uint64, r result)
	alloc(n uint64) (uintptr, result)
	free(addr uintptr) result
	allocHost(n uint64) (uintptr, result)
	freeHost(addr uintptr) result
	register(addr uintptr, n uint64) (onDevice uintptr, r result)
	unregister(addr uintptr) result

	newStream(priority int) (uintptr, result) // 0 most urgent .. 7
	destroyStream(stream uintptr) result
	queryStream(stream uintptr) result
	waitEvent(stream, event uintptr) result
	// a word of pinned memory, after what is on the stream; not every libcuda can
	writeValue(stream, addr uintptr, value uint32) result
	newEvent(kind eventKind) (uintptr, result)
	destroyEvent(event uintptr) result
	record(event, stream uintptr) result
	queryEvent(event uintptr) result
	syncEvent(event uintptr) result
	// between two timed events that have happened; negative if to came first
	elapsed(from, to uintptr) (ms float32, r result)

	copyAsync(dst, src uintptr, n uint64, stream uintptr) result // any context may be current
	hasCopyBatch() bool
	// in any order; its result is of no segment in particular
	copyBatch(list []driver.Segment, stream uintptr) result
	copy2DAsync(c *copy2D, stream uintptr) result
	fill8(dst uintptr, value byte, n uint64, stream uintptr) result
	fill32(dst uintptr, value uint32, n uint64, stream uintptr) result

	multiprocessors(device int) (int, result)
	capability(device int) (major, minor int, r result)
	// PTX, a cubin or a fatbin; the module belongs to the current context, and the log is that of the compiler
	loadModule(image []byte) (module uintptr, log string, r result)
	unloadModule(module uintptr) result
	kernel(module uintptr, name string) (uintptr, result)
	global(module uintptr, name string) (addr uintptr, n uint64, r result)
	maxThreads(kernel uintptr) (int, result)               // in a block
	allowShared(kernel uintptr, bytes uint32) result       // dynamic shared memory of a block
	params(kernel uintptr) (list []kernel.Param, r result) // not every libcuda knows
	launch(kernel uintptr, blocks, threads int, params []byte, stream uintptr) result
	launchShaped(kernel uintptr, s *shape, stream uintptr) result

	// Graphs, see executable.go. A libcuda before CUDA 12.0 does not support them.
	newGraph(context uintptr, nodes []node) (cudaGraph, result)
	// makes node i, a kernel, another one; launches before keep what they had
	setKernel(g *cudaGraph, i int, context uintptr, n *node) result
	launchGraph(g *cudaGraph, stream uintptr) result // any context may be current
	dropGraph(g *cudaGraph) result                   // what was launched goes on

	// Memory apart from its addresses. What an old libcuda has not got is not supported.
	reserve(n uint64, at uintptr) (uintptr, result) // at, if not 0, is a hint
	unreserve(addr uintptr, n uint64) result
	createMemory(n uint64, at place) (handle uint64, r result)
	releaseMemory(handle uint64) result
	mapMemory(addr uintptr, n, handle uint64) result
	unmapMemory(addr uintptr, n uint64) result
	setAccess(addr uintptr, n uint64, to place) result
	exportMemory(handle uint64) (fd int, r result)
	importMemory(fd int) (handle uint64, r result)
	exportAlloc(addr uintptr, handle *[ipcBytes]byte) result // of memory that alloc gave
	openAlloc(handle *[ipcBytes]byte) (addr uintptr, n uint64, r result)
	closeAlloc(addr uintptr) result
	hostToo(device int) (bool, result)       // the host can use managed memory while the GPU does
	allocManaged(n uint64) (uintptr, result) // to be freed with free

	describe(r result) (name, text string)
}

// eventKind is what an event is good for.
type eventKind uint8

const (
	// it is queried, and no thread sleeps until it happens, which makes it cheaper to record
	askedEvent eventKind = iota
	sleptEvent           // one may sleep until it happens
	timedEvent           // and its time can be read
	eventKinds
)

// shape says how a kernel of a program is launched.
type shape struct {
	blocks, threads [3]uint32
	shared          uint32  // bytes of dynamic shared memory
	together        bool    // all blocks run at the same time
	args            uintptr // where the parameters are, in memory that is not Go's own
	bytes           uint64
}

// node is what one node of a graph does: a kernel, or if that is 0, a fill, or if that has no width, a copy.
type node struct {
	kernel uintptr
	shape  shape

	dst, src uintptr
	n        uint64 // bytes of a copy, values of a fill
	value    uint32
	width    uint32 // bytes of a value

	level int // it comes after the nodes of all lower levels; they are numbered from 0, without gaps
}

// cudaGraph is a graph that can be launched.
type cudaGraph struct {
	exec, graph uintptr
	nodes       []uintptr
}

// copy2D says what a 2-D copy does.
type copy2D struct {
	dst, src           uintptr
	dstPitch, srcPitch uint64
	width, height      uint64
}

// result is what a function of libcuda returns.
type result int32

// The results that mean something to the driver.
const (
	success            result = 0
	outOfMemory        result = 2
	notInitialized     result = 3
	deinitialized      result = 4
	noDevice           result = 100
	invalidDevice      result = 101
	invalidContext     result = 201
	eccUncorrectable   result = 214
	nvlinkError        result = 220
	alreadyMapped      result = 208
	noBinary           result = 209
	invalidImage       result = 200
	invalidPTX         result = 218
	noCompiler         result = 221
	newerPTX           result = 222
	invalidSource      result = 300
	notFound           result = 500
	invalidHandle      result = 400
	notReady           result = 600
	illegalAddress     result = 700
	launchTimeout      result = 702
	peerEnabled        result = 704
	contextDestroyed   result = 709
	deviceAssert       result = 710
	alreadyRegistered  result = 712
	hardwareStack      result = 714
	illegalInstruction result = 715
	tooManyTogether    result = 720
	launchFailed       result = 719
	notSupported       result = 801
	unknownError       result = 999
)

// sticky reports whether a context is of no use after r: everything that comes later fails in the same way.
func (r result) sticky() bool {
	switch r {
	case eccUncorrectable, nvlinkError, illegalAddress, launchTimeout, contextDestroyed, deviceAssert, launchFailed,
		unknownError:
		return true
	}
	return r >= hardwareStack && r < launchFailed // kinds of faults of a kernel
}

// kind is the driver's error that r amounts to.
func (r result) kind() error {
	switch r {
	case outOfMemory:
		return driver.ErrNoMemory
	case notInitialized, deinitialized:
		return driver.ErrClosed
	case noDevice, invalidDevice, notSupported:
		return driver.ErrUnsupported
	}
	if r.sticky() {
		return driver.ErrLost
	}
	return errCUDA
}

// errCUDA is a refusal that no program should see: the driver asked for what it must not.
var errCUDA = errors.New("CUDA refused a call")

// failed is the error for a call that returned r, nil if that is success.
func failed(a api, call string, r result) error {
	if r == success {
		return nil
	}
	name, text := a.describe(r)
	return fmt.Errorf("%w: %s: %s: %s", r.kind(), call, name, text)
}
