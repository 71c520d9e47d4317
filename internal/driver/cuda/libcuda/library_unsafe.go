package libcuda

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"sync"
	"unsafe"

	"ropeway/internal/dl"
)

// libraryName is the library of NVIDIA's driver package.
const libraryName = "libcuda.so.1"

// Flags of libcuda.
const (
	portable      = 1 // pinned memory: of all contexts
	deviceMap     = 2 // pinned memory: devices can access it
	nonBlocking   = 1 // streams: do not wait for the default stream
	blockingSync  = 1 // events: a waiting thread sleeps
	disableTiming = 2
	unified       = 4 // memory type: derived from the address

)

// library is libcuda. Each field is the address of the function named in symbols; 0 if this version lacks it.
type library struct {
	init, driverGetVersion, getErrorName, getErrorString          uintptr
	deviceGetCount, deviceGet, deviceGetName                      uintptr
	primaryRetain, primaryRelease, ctxSetCurrent, ctxEnablePeer   uintptr
	ctxSynchronize, ctxPriorityRange                              uintptr
	memGetInfo, memAlloc, memFree, memHostAlloc, memFreeHost      uintptr
	memHostRegister, memHostUnregister, memHostGetDevicePointer   uintptr
	streamCreate, streamDestroy, streamQuery, streamWait          uintptr
	streamWrite                                                   uintptr
	eventCreate, eventDestroy, eventRecord, eventQuery, eventSync uintptr
	eventElapsed                                                  uintptr
	deviceGetAttribute, moduleLoadData, moduleUnload              uintptr
	moduleGetFunction, launchKernel, moduleLoadDataEx             uintptr
	moduleGetGlobal, funcGetAttribute, funcSetAttribute           uintptr
	funcGetParamInfo, launchKernelEx                              uintptr
	memcpyAsync, memcpy2DAsync, memsetD8Async, memsetD32Async     uintptr
	memcpyBatch, memcpyBatchOld                                   uintptr
	memAddressReserve, memAddressFree, memCreate, memRelease      uintptr
	memMap, memUnmap, memSetAccess, memExport, memImport          uintptr
	memAllocManaged                                               uintptr
	ipcGetMem, ipcOpenMem, ipcCloseMem, memGetAddressRange        uintptr
	graphCreate, graphDestroy, graphInstantiate, graphExecDestroy uintptr
	graphAddKernel, graphAddMemcpy, graphAddMemset                uintptr
	graphSetKernel, graphLaunch                                   uintptr
}

// symbols lists the functions to look up; an old library may lack optional ones.
func (l *library) symbols() []struct {
	at       *uintptr
	name     string
	optional bool
} {
	return []struct {
		at       *uintptr
		name     string
		optional bool
	}{
		{&l.init, "cuInit", false},
		{&l.driverGetVersion, "cuDriverGetVersion", false},
		{&l.getErrorName, "cuGetErrorName", true},
		{&l.getErrorString, "cuGetErrorString", true},
		{&l.deviceGetCount, "cuDeviceGetCount", false},
		{&l.deviceGet, "cuDeviceGet", false},
		{&l.deviceGetName, "cuDeviceGetName", true},
		{&l.primaryRetain, "cuDevicePrimaryCtxRetain", false},
		{&l.primaryRelease, "cuDevicePrimaryCtxRelease_v2", false},
		{&l.ctxSetCurrent, "cuCtxSetCurrent", false},
		{&l.ctxSynchronize, "cuCtxSynchronize", false},
		{&l.ctxEnablePeer, "cuCtxEnablePeerAccess", true},
		{&l.ctxPriorityRange, "cuCtxGetStreamPriorityRange", true},
		{&l.memGetInfo, "cuMemGetInfo_v2", false},
		{&l.memAlloc, "cuMemAlloc_v2", false},
		{&l.memFree, "cuMemFree_v2", false},
		{&l.memHostAlloc, "cuMemHostAlloc", false},
		{&l.memFreeHost, "cuMemFreeHost", false},
		{&l.memHostRegister, "cuMemHostRegister_v2", true},
		{&l.memHostUnregister, "cuMemHostUnregister", true},
		{&l.memHostGetDevicePointer, "cuMemHostGetDevicePointer_v2", true},
		{&l.streamCreate, "cuStreamCreateWithPriority", false},
		{&l.streamDestroy, "cuStreamDestroy_v2", false},
		{&l.streamQuery, "cuStreamQuery", false},
		{&l.streamWait, "cuStreamWaitEvent", false},
		{&l.streamWrite, "cuStreamWriteValue32_v2", true}, // CUDA 11.7
		{&l.eventCreate, "cuEventCreate", false},
		{&l.eventDestroy, "cuEventDestroy_v2", false},
		{&l.eventRecord, "cuEventRecord", false},
		{&l.eventQuery, "cuEventQuery", false},
		{&l.eventSync, "cuEventSynchronize", false},
		{&l.eventElapsed, "cuEventElapsedTime", true},
		{&l.deviceGetAttribute, "cuDeviceGetAttribute", true},
		{&l.moduleLoadData, "cuModuleLoadData", true},
		{&l.moduleUnload, "cuModuleUnload", true},
		{&l.moduleGetFunction, "cuModuleGetFunction", true},
		{&l.launchKernel, "cuLaunchKernel", true},
		{&l.moduleLoadDataEx, "cuModuleLoadDataEx", true},
		{&l.moduleGetGlobal, "cuModuleGetGlobal_v2", true},
		{&l.funcGetAttribute, "cuFuncGetAttribute", true},
		{&l.funcSetAttribute, "cuFuncSetAttribute", true},
		{&l.funcGetParamInfo, "cuFuncGetParamInfo", true}, // CUDA 12.4
		{&l.launchKernelEx, "cuLaunchKernelEx", true},     // CUDA 11.8
		{&l.memcpyAsync, "cuMemcpyAsync", false},
		{&l.memcpy2DAsync, "cuMemcpy2DAsync_v2", false},
		{&l.memcpyBatch, "cuMemcpyBatchAsync_v2", true}, // CUDA 13.0
		{&l.memcpyBatchOld, "cuMemcpyBatchAsync", true}, // CUDA 12.8: one more parameter
		{&l.memsetD8Async, "cuMemsetD8Async", false},
		{&l.memsetD32Async, "cuMemsetD32Async", false},
		{&l.memAddressReserve, "cuMemAddressReserve", true},
		{&l.memAddressFree, "cuMemAddressFree", true},
		{&l.memCreate, "cuMemCreate", true},
		{&l.memRelease, "cuMemRelease", true},
		{&l.memMap, "cuMemMap", true},
		{&l.memUnmap, "cuMemUnmap", true},
		{&l.memSetAccess, "cuMemSetAccess", true},
		{&l.memExport, "cuMemExportToShareableHandle", true},
		{&l.memImport, "cuMemImportFromShareableHandle", true},
		{&l.memAllocManaged, "cuMemAllocManaged", true},
		{&l.ipcGetMem, "cuIpcGetMemHandle", true},
		{&l.ipcOpenMem, "cuIpcOpenMemHandle_v2", true},
		{&l.ipcCloseMem, "cuIpcCloseMemHandle", true},
		{&l.memGetAddressRange, "cuMemGetAddressRange_v2", true},
		{&l.graphCreate, "cuGraphCreate", true},
		{&l.graphDestroy, "cuGraphDestroy", true},
		{&l.graphInstantiate, "cuGraphInstantiateWithFlags", true},
		{&l.graphExecDestroy, "cuGraphExecDestroy", true},
		{&l.graphAddKernel, "cuGraphAddKernelNode_v2", true}, // CUDA 12.0
		{&l.graphAddMemcpy, "cuGraphAddMemcpyNode", true},
		{&l.graphAddMemset, "cuGraphAddMemsetNode", true},
		{&l.graphSetKernel, "cuGraphExecKernelNodeSetParams_v2", true}, // CUDA 12.0
		{&l.graphLaunch, "cuGraphLaunch", true},
	}
}

// Load opens libcuda and starts it. The error is one line and an [absent].
func Load() (API, error) {
	if !keysLeft() {
		return nil, Absent("the process has no pthread key left, and the NVIDIA driver needs some")
	}
	lib, err := dl.Open(libraryName)
	if err != nil {
		if cause := errors.Unwrap(err); cause != nil {
			err = cause // it names the library itself
		}
		return nil, Absent(fmt.Sprintf("no NVIDIA driver is installed (%v)", err))
	}
	l := new(library)
	for _, s := range l.symbols() {
		at, err := lib.Symbol(s.name)
		if err != nil && !s.optional {
			return nil, Absent("the NVIDIA driver is too old: it has no " + s.name)
		}
		*s.at = at
	}
	if err := Failed(l, "cuInit", l.call(l.init, 0)); err != nil {
		return nil, Absent(err.Error())
	}
	return l, nil
}

// call calls a function that returns a result.
func (l *library) call(fn uintptr, args ...uintptr) Result {
	if fn == 0 {
		return NotSupported
	}
	return Result(dl.CallInt(fn, args...))
}

// drop calls a function that releases a resource. At exit, CUDA ends before the program's last handlers run, and has
// then released everything itself.
func (l *library) drop(fn uintptr, args ...uintptr) Result {
	r := l.call(fn, args...)
	if r == Deinitialized {
		return Success
	}
	return r
}

// outs receives the values that functions return besides the result. It comes from a pool, so it is on the heap and
// does not move while C writes to it.
type outs struct {
	word [2]uint64
	text [128]byte
	copy memcpy2D

	ipc    [IPCBytes / 8]uint64
	prop   memProp
	access memAccess

	launch launchArgs
	node   nodeArgs
}

var outsPool = sync.Pool{New: func() any { return new(outs) }}

func getOuts() *outs {
	o := outsPool.Get().(*outs)
	o.word = [2]uint64{}
	return o
}

func (o *outs) done()             { outsPool.Put(o) }
func (o *outs) at(i int) uintptr  { return uintptr(unsafe.Pointer(&o.word[i])) }
func (o *outs) address() uintptr  { return uintptr(o.word[0]) }
func (o *outs) int32(i int) int32 { return int32(o.word[i]) } // C wrote the low half
func (l *library) DriverVersion() (int, Result) {
	o := getOuts()
	defer o.done()
	r := l.call(l.driverGetVersion, o.at(0))
	return int(o.int32(0)), r
}

func (l *library) DeviceCount() (int, Result) {
	o := getOuts()
	defer o.done()
	r := l.call(l.deviceGetCount, o.at(0))
	return int(o.int32(0)), r
}

// handle returns the CUdevice of a number.
func (l *library) handle(o *outs, device int) (uintptr, Result) {
	r := l.call(l.deviceGet, o.at(0), uintptr(device))
	return uintptr(o.int32(0)), r
}

func (l *library) DeviceName(device int) (string, Result) {
	o := getOuts()
	defer o.done()
	h, r := l.handle(o, device)
	if r == Success {
		r = l.call(l.deviceGetName, uintptr(unsafe.Pointer(&o.text)), uintptr(len(o.text)), h)
	}
	if r != Success {
		return "", r
	}
	name, _, _ := bytes.Cut(o.text[:], []byte{0})
	return string(name), Success
}

func (l *library) PrimaryCtxRetain(device int) (uintptr, Result) {
	o := getOuts()
	defer o.done()
	h, r := l.handle(o, device)
	if r != Success {
		return 0, r
	}
	o.word[0] = 0
	r = unsignalled(func() Result { return l.call(l.primaryRetain, o.at(0), h) })
	return o.address(), r
}

func (l *library) PrimaryCtxRelease(device int) Result { return l.onDevice(l.primaryRelease, device) }

// onDevice calls a function whose only argument is a device.
func (l *library) onDevice(fn uintptr, device int) Result {
	o := getOuts()
	defer o.done()
	h, r := l.handle(o, device)
	if r != Success {
		return r
	}
	return l.call(fn, h)
}

func (l *library) CtxSetCurrent(context uintptr) Result { return l.call(l.ctxSetCurrent, context) }

func (l *library) CtxEnablePeerAccess(of uintptr) Result {
	r := l.call(l.ctxEnablePeer, of, 0)
	if r == PeerEnabled {
		return Success
	}
	return r
}

func (l *library) CtxSynchronize() Result { return l.call(l.ctxSynchronize) }

func (l *library) MemInfo() (free, total uint64, r Result) {
	o := getOuts()
	defer o.done()
	r = l.call(l.memGetInfo, o.at(0), o.at(1))
	return o.word[0], o.word[1], r
}

func (l *library) MemAlloc(n uint64) (uintptr, Result) {
	o := getOuts()
	defer o.done()
	r := l.call(l.memAlloc, o.at(0), uintptr(n))
	return o.address(), r
}

func (l *library) MemFree(addr uintptr) Result { return l.drop(l.memFree, addr) }

func (l *library) MemHostAlloc(n uint64) (uintptr, Result) {
	o := getOuts()
	defer o.done()
	r := l.call(l.memHostAlloc, o.at(0), uintptr(n), portable|deviceMap)
	return o.address(), r
}

func (l *library) MemFreeHost(addr uintptr) Result { return l.drop(l.memFreeHost, addr) }

func (l *library) MemHostRegister(addr uintptr, n uint64) (uintptr, Result) {
	if r := l.call(l.memHostRegister, addr, uintptr(n), portable|deviceMap); r != Success {
		return 0, r
	}
	o := getOuts()
	defer o.done()
	r := l.call(l.memHostGetDevicePointer, o.at(0), addr, 0)
	return o.address(), r
}

func (l *library) MemHostUnregister(addr uintptr) Result { return l.drop(l.memHostUnregister, addr) }

func (l *library) StreamCreate(priority int) (uintptr, Result) {
	o := getOuts()
	defer o.done()
	var level int32
	if r := l.call(l.ctxPriorityRange, o.at(0), o.at(1)); r == Success {
		least, greatest := o.int32(0), o.int32(1) // 0 and, say, -5: lower is more urgent
		level = greatest + (least-greatest)*int32(priority)/7
	}
	o.word[0] = 0
	r := unsignalled(func() Result { return l.call(l.streamCreate, o.at(0), nonBlocking, uintptr(uint32(level))) })
	return o.address(), r
}

func (l *library) StreamDestroy(stream uintptr) Result { return l.drop(l.streamDestroy, stream) }
func (l *library) StreamQuery(stream uintptr) Result   { return l.call(l.streamQuery, stream) }
func (l *library) StreamWaitEvent(stream, event uintptr) Result {
	return l.call(l.streamWait, stream, event, 0)
}

func (l *library) StreamWriteValue(stream, addr uintptr, value uint32) Result {
	return l.call(l.streamWrite, stream, addr, uintptr(value), 0)
}

func (l *library) EventCreate(kind EventKind) (uintptr, Result) {
	o := getOuts()
	defer o.done()
	flags := [EventKinds]uintptr{AskedEvent: disableTiming, SleptEvent: blockingSync | disableTiming,
		TimedEvent: blockingSync}
	r := l.call(l.eventCreate, o.at(0), flags[kind])
	return o.address(), r
}

func (l *library) EventElapsedTime(from, to uintptr) (float32, Result) {
	o := getOuts()
	defer o.done()
	r := l.call(l.eventElapsed, o.at(0), from, to)
	return math.Float32frombits(uint32(o.word[0])), r
}

func (l *library) EventDestroy(event uintptr) Result { return l.drop(l.eventDestroy, event) }
func (l *library) EventRecord(event, stream uintptr) Result {
	return l.call(l.eventRecord, event, stream)
}
func (l *library) EventQuery(event uintptr) Result       { return l.call(l.eventQuery, event) }
func (l *library) EventSynchronize(event uintptr) Result { return l.call(l.eventSync, event) }

func (l *library) MemcpyAsync(dst, src uintptr, n uint64, stream uintptr) Result {
	return l.call(l.memcpyAsync, dst, src, uintptr(n), stream)
}

// memcpy2D is the C structure that describes a 2-D copy.
type memcpy2D struct {
	srcX, srcY uint64
	srcType    uint32
	_          uint32
	srcHost    uintptr
	srcDevice  uintptr
	srcArray   uintptr
	srcPitch   uint64

	dstX, dstY uint64
	dstType    uint32
	_          uint32
	dstHost    uintptr
	dstDevice  uintptr
	dstArray   uintptr
	dstPitch   uint64

	width, height uint64
}

func (l *library) Memcpy2DAsync(c *Copy2D, stream uintptr) Result {
	o := getOuts()
	defer o.done()
	o.copy = memcpy2D{
		srcType: unified, srcDevice: c.Src, srcPitch: c.SrcPitch,
		dstType: unified, dstDevice: c.Dst, dstPitch: c.DstPitch, width: c.Width, height: c.Height,
	}
	return l.call(l.memcpy2DAsync, uintptr(unsafe.Pointer(&o.copy)), stream)
}

func (l *library) MemsetD8Async(dst uintptr, value byte, n uint64, stream uintptr) Result {
	return l.call(l.memsetD8Async, dst, uintptr(value), uintptr(n), stream)
}

func (l *library) MemsetD32Async(dst uintptr, value uint32, n uint64, stream uintptr) Result {
	return l.call(l.memsetD32Async, dst, uintptr(value), uintptr(n), stream)
}

func (l *library) Describe(r Result) (name, text string) {
	o := getOuts()
	defer o.done()
	name, text = fmt.Sprintf("CUDA error %d", int32(r)), "no description"
	if l.call(l.getErrorName, uintptr(r), o.at(0)) == Success && o.word[0] != 0 {
		name = cString(o.address())
	}
	o.word[0] = 0
	if l.call(l.getErrorString, uintptr(r), o.at(0)) == Success && o.word[0] != 0 {
		text = cString(o.address())
	}
	return name, text
}

// cString returns the text at addr, which ends with a zero and is not in Go's heap.
func cString(addr uintptr) string {
	p := (*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&addr)))
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}
