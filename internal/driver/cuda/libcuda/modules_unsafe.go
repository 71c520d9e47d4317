package libcuda

import (
	"bytes"
	"runtime"
	"unsafe"

	"ropeway/internal/kernel"
)

// Numbers of CUDA.
const (
	multiprocessorCount = 16 // attributes of a device
	capabilityMajor     = 75
	capabilityMinor     = 76

	maxThreadsPerBlock = 0 // attributes of a function
	maxDynamicShared   = 8

	paramBuffer = 1 // of a launch: the address of the parameters follows
	paramSize   = 2 // of a launch: the address of their size follows

	jitErrorLog     = 5 // of loading: buffer for the compiler's text, and its size
	jitErrorLogSize = 6

	attrCooperative = 2 // of a launch: all blocks run at the same time
)

// launchArgs holds the arguments of a launch for C.
type launchArgs struct {
	params [mostParams]byte
	size   uint64
	extra  [5]uintptr
	config launchConfig
	attr   launchAttr
}

// mostParams is the most bytes of parameters of the driver's own kernels.
const mostParams = 4096

// launchConfig and launchAttr are C structures of cuLaunchKernelEx.
type launchConfig struct {
	blocks, threads [3]uint32
	shared          uint32
	_               uint32
	stream          uintptr
	attrs           uintptr
	count           uint32
}

type launchAttr struct {
	id    uint32
	_     uint32
	value [16]uint32
}

// attribute returns an attribute of a device.
func (l *library) attribute(device int, which uintptr) (int, Result) {
	o := getOuts()
	defer o.done()
	h, r := l.handle(o, device)
	if r != Success {
		return 0, r
	}
	o.word[0] = 0
	r = l.call(l.deviceGetAttribute, o.at(0), which, h)
	return int(o.int32(0)), r
}

func (l *library) Multiprocessors(device int) (int, Result) {
	return l.attribute(device, multiprocessorCount)
}

func (l *library) Capability(device int) (major, minor int, r Result) {
	if major, r = l.attribute(device, capabilityMajor); r == Success {
		minor, r = l.attribute(device, capabilityMinor)
	}
	return major, minor, r
}

// onHeap returns n bytes that do not move, as bytes on a stack might.
//
//go:noinline
func onHeap(n int) []byte { return make([]byte, n) }

// zeroed returns a copy of b with a zero after it.
func zeroed[T string | []byte](b T) []byte {
	c := onHeap(len(b) + 1)
	copy(c, b)
	return c
}

func (l *library) ModuleLoad(image []byte) (uintptr, string, Result) {
	const most = 8 << 10
	o := getOuts()
	defer o.done()
	text, log := zeroed(image), onHeap(most)
	at := uintptr(unsafe.Pointer(unsafe.SliceData(text)))
	var r Result
	if l.moduleLoadDataEx == 0 {
		r = unsignalled(func() Result { return l.call(l.moduleLoadData, o.at(0), at) })
	} else {
		w := &o.launch // for two options and their values
		w.config.blocks[0], w.config.blocks[1] = jitErrorLog, jitErrorLogSize
		w.extra[0], w.extra[1] = uintptr(unsafe.Pointer(unsafe.SliceData(log))), most
		r = unsignalled(func() Result {
			return l.call(l.moduleLoadDataEx, o.at(0), at, 2, uintptr(unsafe.Pointer(&w.config)),
				uintptr(unsafe.Pointer(&w.extra)))
		})
	}
	runtime.KeepAlive(text)
	said, _, _ := bytes.Cut(log, []byte{0})
	return o.address(), string(bytes.TrimSpace(said)), r
}

func (l *library) ModuleUnload(module uintptr) Result { return l.drop(l.moduleUnload, module) }

func (l *library) ModuleFunction(module uintptr, name string) (uintptr, Result) {
	o := getOuts()
	defer o.done()
	text := zeroed(name)
	r := l.call(l.moduleGetFunction, o.at(0), module, uintptr(unsafe.Pointer(unsafe.SliceData(text))))
	runtime.KeepAlive(text)
	return o.address(), r
}

func (l *library) ModuleGlobal(module uintptr, name string) (uintptr, uint64, Result) {
	o := getOuts()
	defer o.done()
	text := zeroed(name)
	r := l.call(l.moduleGetGlobal, o.at(0), o.at(1), module, uintptr(unsafe.Pointer(unsafe.SliceData(text))))
	runtime.KeepAlive(text)
	return o.address(), o.word[1], r
}

func (l *library) FuncMaxThreads(kernel uintptr) (int, Result) {
	o := getOuts()
	defer o.done()
	r := l.call(l.funcGetAttribute, o.at(0), maxThreadsPerBlock, kernel)
	return int(o.int32(0)), r
}

func (l *library) FuncAllowShared(kernel uintptr, bytes uint32) Result {
	return l.call(l.funcSetAttribute, kernel, maxDynamicShared, uintptr(bytes))
}

func (l *library) FuncParams(k uintptr) ([]kernel.Param, Result) {
	if l.funcGetParamInfo == 0 {
		return nil, NotSupported
	}
	o := getOuts()
	defer o.done()
	var list []kernel.Param
	for l.call(l.funcGetParamInfo, k, uintptr(len(list)), o.at(0), o.at(1)) == Success {
		list = append(list, kernel.Param{Offset: uint32(o.word[0]), Size: uint32(o.word[1])})
	}
	return list, Success
}

func (l *library) LaunchKernel(kernel uintptr, blocks, threads int, params []byte, stream uintptr) Result {
	o := getOuts()
	defer o.done()
	w := &o.launch
	n := copy(w.params[:], params)
	s := Shape{Blocks: [3]uint32{uint32(blocks), 1, 1}, Threads: [3]uint32{uint32(threads), 1, 1},
		Args: uintptr(unsafe.Pointer(&w.params)), Bytes: uint64(n)}
	return l.launchWith(o, kernel, &s, stream)
}

func (l *library) LaunchShaped(kernel uintptr, s *Shape, stream uintptr) Result {
	o := getOuts()
	defer o.done()
	return l.launchWith(o, kernel, s, stream)
}

// launchWith launches a kernel with arguments in o.
func (l *library) launchWith(o *outs, kernel uintptr, s *Shape, stream uintptr) Result {
	w, extra := &o.launch, uintptr(0)
	if s.Bytes > 0 {
		extra = w.extraOf(s)
	}
	if s.Together && l.launchKernelEx != 0 {
		w.attr = launchAttr{id: attrCooperative, value: [16]uint32{1}}
		w.config = launchConfig{blocks: s.Blocks, threads: s.Threads, shared: s.Shared, stream: stream,
			attrs: uintptr(unsafe.Pointer(&w.attr)), count: 1}
		r := l.call(l.launchKernelEx, uintptr(unsafe.Pointer(&w.config)), kernel, 0, extra)
		if r != TooManyTogether && r != NotSupported {
			return r
		}
	}
	b, t := &s.Blocks, &s.Threads
	return l.call(l.launchKernel, kernel, uintptr(b[0]), uintptr(b[1]), uintptr(b[2]),
		uintptr(t[0]), uintptr(t[1]), uintptr(t[2]), uintptr(s.Shared), stream, 0, extra)
}
