package libcuda

import (
	"runtime"
	"unsafe"
)

// Values of libcuda for virtual memory.
const (
	pinnedMemory  = 1 // type of memory
	posixFile     = 1 // type of a shared handle: a file descriptor
	onDevicePlace = 1
	onNodePlace   = 3 // a NUMA node of the host
	mayReadWrite  = 3
	attachGlobal  = 1  // managed memory: of all GPUs
	concurrently  = 89 // attribute of a device: see ConcurrentManaged
	peersToo      = 1  // flag of opening: enable peer access as needed
)

// memLocation is the C structure for a place.
type memLocation struct{ kind, id int32 }

func (p Place) location() memLocation {
	if p == HostPlace {
		return memLocation{onNodePlace, 0}
	}
	return memLocation{onDevicePlace, int32(p)}
}

// memProp is the C structure for the properties of new memory.
type memProp struct {
	kind, handleTypes int32
	location          memLocation
	_                 uintptr
	_                 [8]byte
}

// memAccess is the C structure for access to memory.
type memAccess struct {
	location memLocation
	flags    int32
}

func (l *library) MemAddressReserve(n, align uint64, at uintptr) (uintptr, Result) {
	o := getOuts()
	defer o.done()
	r := l.call(l.memAddressReserve, o.at(0), uintptr(n), uintptr(align), at, 0)
	return o.address(), r
}

func (l *library) MemAddressFree(addr uintptr, n uint64) Result {
	return l.drop(l.memAddressFree, addr, uintptr(n))
}

// MemCreate creates memory that can be shared with other processes, if that is possible.
func (l *library) MemCreate(n uint64, at Place) (uint64, Result) {
	o := getOuts()
	defer o.done()
	o.prop = memProp{kind: pinnedMemory, handleTypes: posixFile, location: at.location()}
	r := l.call(l.memCreate, o.at(0), uintptr(n), uintptr(unsafe.Pointer(&o.prop)), 0)
	if r != Success && r != OutOfMemory && !r.Sticky() {
		o.prop.handleTypes = 0
		r = l.call(l.memCreate, o.at(0), uintptr(n), uintptr(unsafe.Pointer(&o.prop)), 0)
	}
	return o.word[0], r
}

func (l *library) MemRelease(h uint64) Result { return l.drop(l.memRelease, uintptr(h)) }

func (l *library) MemMap(addr uintptr, n, h uint64) Result {
	return l.call(l.memMap, addr, uintptr(n), 0, uintptr(h), 0)
}

func (l *library) MemUnmap(addr uintptr, n uint64) Result {
	return l.drop(l.memUnmap, addr, uintptr(n))
}

func (l *library) MemSetAccess(addr uintptr, n uint64, to Place) Result {
	o := getOuts()
	defer o.done()
	o.access = memAccess{to.location(), mayReadWrite}
	return l.call(l.memSetAccess, addr, uintptr(n), uintptr(unsafe.Pointer(&o.access)), 1)
}

func (l *library) MemExport(h uint64) (fd int, r Result) {
	o := getOuts()
	defer o.done()
	r = l.call(l.memExport, o.at(0), uintptr(h), posixFile, 0)
	return int(o.int32(0)), r
}

func (l *library) MemImport(fd int) (uint64, Result) {
	o := getOuts()
	defer o.done()
	r := l.call(l.memImport, o.at(0), uintptr(fd), posixFile)
	return o.word[0], r
}

func (l *library) MemAllocManaged(n uint64) (uintptr, Result) {
	o := getOuts()
	defer o.done()
	r := l.call(l.memAllocManaged, o.at(0), uintptr(n), attachGlobal)
	return o.address(), r
}

func (l *library) IPCGetMemHandle(addr uintptr, handle *[IPCBytes]byte) Result {
	o := getOuts()
	defer o.done()
	r := l.call(l.ipcGetMem, uintptr(unsafe.Pointer(&o.ipc)), addr)
	*handle = *(*[IPCBytes]byte)(unsafe.Pointer(&o.ipc))
	return r
}

// IPCOpenMemHandle passes a structure of 64 bytes by value: on the stack after the arguments in registers or, on arm64,
// by its address.
func (l *library) IPCOpenMemHandle(handle *[IPCBytes]byte) (addr uintptr, n uint64, r Result) {
	o := getOuts()
	defer o.done()
	*(*[IPCBytes]byte)(unsafe.Pointer(&o.ipc)) = *handle
	if runtime.GOARCH == "amd64" {
		args := [6 + IPCBytes/8]uintptr{o.at(0), peersToo}
		for i, word := range o.ipc {
			args[6+i] = uintptr(word)
		}
		r = l.call(l.ipcOpenMem, args[:]...)
	} else {
		r = l.call(l.ipcOpenMem, o.at(0), uintptr(unsafe.Pointer(&o.ipc)), peersToo)
	}
	if r != Success {
		return 0, 0, r
	}
	addr = o.address()
	if r = l.call(l.memGetAddressRange, o.at(0), o.at(1), addr); r != Success || o.address() != addr {
		l.IPCCloseMemHandle(addr)
		return 0, 0, max(r, NotSupported)
	}
	return addr, o.word[1], Success
}

func (l *library) IPCCloseMemHandle(addr uintptr) Result { return l.drop(l.ipcCloseMem, addr) }

func (l *library) ConcurrentManaged(device int) (bool, Result) {
	o := getOuts()
	defer o.done()
	h, r := l.handle(o, device)
	if r != Success {
		return false, r
	}
	o.word[0] = 0
	r = l.call(l.deviceGetAttribute, o.at(0), concurrently, h)
	return o.int32(0) != 0, r
}
