package libcuda

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
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

// library is libcuda. Each field is the address of the function in its tag, 0 if this version lacks an optional one.
type library struct {
	init                    uintptr `cuda:"cuInit"`
	driverGetVersion        uintptr `cuda:"cuDriverGetVersion"`
	getErrorName            uintptr `cuda:"cuGetErrorName,optional"`
	getErrorString          uintptr `cuda:"cuGetErrorString,optional"`
	deviceGetCount          uintptr `cuda:"cuDeviceGetCount"`
	deviceGet               uintptr `cuda:"cuDeviceGet"`
	deviceGetName           uintptr `cuda:"cuDeviceGetName,optional"`
	primaryRetain           uintptr `cuda:"cuDevicePrimaryCtxRetain"`
	primaryRelease          uintptr `cuda:"cuDevicePrimaryCtxRelease_v2"`
	ctxSetCurrent           uintptr `cuda:"cuCtxSetCurrent"`
	ctxSynchronize          uintptr `cuda:"cuCtxSynchronize"`
	ctxEnablePeer           uintptr `cuda:"cuCtxEnablePeerAccess,optional"`
	ctxPriorityRange        uintptr `cuda:"cuCtxGetStreamPriorityRange,optional"`
	memGetInfo              uintptr `cuda:"cuMemGetInfo_v2"`
	memAlloc                uintptr `cuda:"cuMemAlloc_v2"`
	memFree                 uintptr `cuda:"cuMemFree_v2"`
	memHostAlloc            uintptr `cuda:"cuMemHostAlloc"`
	memFreeHost             uintptr `cuda:"cuMemFreeHost"`
	memHostRegister         uintptr `cuda:"cuMemHostRegister_v2,optional"`
	memHostUnregister       uintptr `cuda:"cuMemHostUnregister,optional"`
	memHostGetDevicePointer uintptr `cuda:"cuMemHostGetDevicePointer_v2,optional"`
	streamCreate            uintptr `cuda:"cuStreamCreateWithPriority"`
	streamDestroy           uintptr `cuda:"cuStreamDestroy_v2"`
	streamQuery             uintptr `cuda:"cuStreamQuery"`
	streamWait              uintptr `cuda:"cuStreamWaitEvent"`
	streamWrite             uintptr `cuda:"cuStreamWriteValue32_v2,optional"` // CUDA 11.7
	eventCreate             uintptr `cuda:"cuEventCreate"`
	eventDestroy            uintptr `cuda:"cuEventDestroy_v2"`
	eventRecord             uintptr `cuda:"cuEventRecord"`
	eventQuery              uintptr `cuda:"cuEventQuery"`
	eventSync               uintptr `cuda:"cuEventSynchronize"`
	eventElapsed            uintptr `cuda:"cuEventElapsedTime,optional"`
	deviceGetAttribute      uintptr `cuda:"cuDeviceGetAttribute,optional"`
	moduleLoadData          uintptr `cuda:"cuModuleLoadData,optional"`
	moduleUnload            uintptr `cuda:"cuModuleUnload,optional"`
	moduleGetFunction       uintptr `cuda:"cuModuleGetFunction,optional"`
	launchKernel            uintptr `cuda:"cuLaunchKernel,optional"`
	moduleLoadDataEx        uintptr `cuda:"cuModuleLoadDataEx,optional"`
	moduleGetGlobal         uintptr `cuda:"cuModuleGetGlobal_v2,optional"`
	funcGetAttribute        uintptr `cuda:"cuFuncGetAttribute,optional"`
	funcSetAttribute        uintptr `cuda:"cuFuncSetAttribute,optional"`
	funcGetParamInfo        uintptr `cuda:"cuFuncGetParamInfo,optional"` // CUDA 12.4
	launchKernelEx          uintptr `cuda:"cuLaunchKernelEx,optional"`
	memcpyAsync             uintptr `cuda:"cuMemcpyAsync"`
	memcpy2DAsync           uintptr `cuda:"cuMemcpy2DAsync_v2"`
	memcpyBatch             uintptr `cuda:"cuMemcpyBatchAsync_v2,optional"` // CUDA 13.0
	memcpyBatchOld          uintptr `cuda:"cuMemcpyBatchAsync,optional"`    // CUDA 12.8: one more parameter
	memsetD8Async           uintptr `cuda:"cuMemsetD8Async"`
	memsetD32Async          uintptr `cuda:"cuMemsetD32Async"`
	memAddressReserve       uintptr `cuda:"cuMemAddressReserve,optional"`
	memAddressFree          uintptr `cuda:"cuMemAddressFree,optional"`
	memCreate               uintptr `cuda:"cuMemCreate,optional"`
	memRelease              uintptr `cuda:"cuMemRelease,optional"`
	memMap                  uintptr `cuda:"cuMemMap,optional"`
	memUnmap                uintptr `cuda:"cuMemUnmap,optional"`
	memSetAccess            uintptr `cuda:"cuMemSetAccess,optional"`
	memExport               uintptr `cuda:"cuMemExportToShareableHandle,optional"`
	memImport               uintptr `cuda:"cuMemImportFromShareableHandle,optional"`
	memAllocManaged         uintptr `cuda:"cuMemAllocManaged,optional"`
	ipcGetMem               uintptr `cuda:"cuIpcGetMemHandle,optional"`
	ipcOpenMem              uintptr `cuda:"cuIpcOpenMemHandle_v2,optional"`
	ipcCloseMem             uintptr `cuda:"cuIpcCloseMemHandle,optional"`
	memGetAddressRange      uintptr `cuda:"cuMemGetAddressRange_v2,optional"`
	graphCreate             uintptr `cuda:"cuGraphCreate,optional"`
	graphDestroy            uintptr `cuda:"cuGraphDestroy,optional"`
	graphInstantiate        uintptr `cuda:"cuGraphInstantiateWithFlags,optional"`
	graphExecDestroy        uintptr `cuda:"cuGraphExecDestroy,optional"`
	graphAddKernel          uintptr `cuda:"cuGraphAddKernelNode_v2,optional"` // CUDA 12.0
	graphAddMemcpy          uintptr `cuda:"cuGraphAddMemcpyNode,optional"`
	graphAddMemset          uintptr `cuda:"cuGraphAddMemsetNode,optional"`
	graphSetKernel          uintptr `cuda:"cuGraphExecKernelNodeSetParams_v2,optional"` // CUDA 12.0
	graphLaunch             uintptr `cuda:"cuGraphLaunch,optional"`
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
	for i, v := 0, reflect.ValueOf(l).Elem(); i < v.NumField(); i++ {
		name, optional, _ := strings.Cut(v.Type().Field(i).Tag.Get("cuda"), ",")
		at, err := lib.Symbol(name)
		if err != nil && optional == "" {
			return nil, Absent("the NVIDIA driver is too old: it has no " + name)
		}
		*(*uintptr)(v.Field(i).Addr().UnsafePointer()) = at
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
