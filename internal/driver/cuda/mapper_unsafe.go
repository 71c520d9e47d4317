package cuda

import (
	"runtime"
	"unsafe"
)

// Values of libcuda for memory apart from its addresses.
const (
	pinnedMemory  = 1 // type of memory
	posixFile     = 1 // type of what is shared: a file descriptor
	onDevicePlace = 1
	onNodePlace   = 3 // a NUMA node of the host
	mayReadWrite  = 3
	attachGlobal  = 1  // managed memory: of all GPUs
	concurrently  = 89 // attribute of a device: the host can use managed memory while the GPU does
	peersToo      = 1  // of what is opened: as other GPUs need it
)

// memLocation is the C structure for a place.
type memLocation struct{ kind, id int32 }

func (p place) location() memLocation {
	if p == hostPlace {
		return memLocation{onNodePlace, 0}
	}
	return memLocation{onDevicePlace, int32(p)}
}

// memProp is the C structure that says what memory is wanted.
type memProp struct {
	kind, handleTypes int32
	location          memLocation
	_                 uintptr
	_                 [8]byte
}

// memAccess is the C structure that says what may use memory.
type memAccess struct {
	location memLocation
	flags    int32
}

func (l *library) reserve(n uint64, at uintptr) (uintptr, result) {
	o := take()
	defer o.done()
	r := l.call(l.memAddressReserve, o.at(0), uintptr(n), extent, at, 0)
	return o.address(), r
}

func (l *library) unreserve(addr uintptr, n uint64) result {
	return l.drop(l.memAddressFree, addr, uintptr(n))
}

// createMemory makes memory that other processes can have, if such can be made.
func (l *library) createMemory(n uint64, at place) (uint64, result) {
	o := take()
	defer o.done()
	o.prop = memProp{kind: pinnedMemory, handleTypes: posixFile, location: at.location()}
	r := l.call(l.memCreate, o.at(0), uintptr(n), uintptr(unsafe.Pointer(&o.prop)), 0)
	if r != success && r != outOfMemory && !r.sticky() {
		o.prop.handleTypes = 0
		r = l.call(l.memCreate, o.at(0), uintptr(n), uintptr(unsafe.Pointer(&o.prop)), 0)
	}
	return o.word[0], r
}

func (l *library) releaseMemory(h uint64) result { return l.drop(l.memRelease, uintptr(h)) }

func (l *library) mapMemory(addr uintptr, n, h uint64) result {
	return l.call(l.memMap, addr, uintptr(n), 0, uintptr(h), 0)
}

func (l *library) unmapMemory(addr uintptr, n uint64) result {
	return l.drop(l.memUnmap, addr, uintptr(n))
}

func (l *library) setAccess(addr uintptr, n uint64, to place) result {
	o := take()
	defer o.done()
	o.access = memAccess{to.location(), mayReadWrite}
	return l.call(l.memSetAccess, addr, uintptr(n), uintptr(unsafe.Pointer(&o.access)), 1)
}

func (l *library) exportMemory(h uint64) (fd int, r result) {
	o := take()
	defer o.done()
	r = l.call(l.memExport, o.at(0), uintptr(h), posixFile, 0)
	return int(o.int32(0)), r
}

func (l *library) importMemory(fd int) (uint64, result) {
	o := take()
	defer o.done()
	r := l.call(l.memImport, o.at(0), uintptr(fd), posixFile)
	return o.word[0], r
}

func (l *library) allocManaged(n uint64) (uintptr, result) {
	o := take()
	defer o.done()
	r := l.call(l.memAllocManaged, o.at(0), uintptr(n), attachGlobal)
	return o.address(), r
}

func (l *library) exportAlloc(addr uintptr, handle *[ipcBytes]byte) result {
	o := take()
	defer o.done()
	r := l.call(l.ipcGetMem, uintptr(unsafe.Pointer(&o.ipc)), addr)
	*handle = *(*[ipcBytes]byte)(unsafe.Pointer(&o.ipc))
	return r
}

// openAlloc passes a structure of 64 bytes by value: on the stack, behind what is in registers, or, on arm64, by its
// address.
func (l *library) openAlloc(handle *[ipcBytes]byte) (addr uintptr, n uint64, r result) {
	o := take()
	defer o.done()
	*(*[ipcBytes]byte)(unsafe.Pointer(&o.ipc)) = *handle
	if runtime.GOARCH == "amd64" {
		args := [6 + ipcBytes/8]uintptr{o.at(0), peersToo}
		for i, word := range o.ipc {
			args[6+i] = uintptr(word)
		}
		r = l.call(l.ipcOpenMem, args[:]...)
	} else {
		r = l.call(l.ipcOpenMem, o.at(0), uintptr(unsafe.Pointer(&o.ipc)), peersToo)
	}
	if r != success {
		return 0, 0, r
	}
	addr = o.address()
	if r = l.call(l.memGetAddressRange, o.at(0), o.at(1), addr); r != success || o.address() != addr {
		l.closeAlloc(addr)
		return 0, 0, max(r, notSupported)
	}
	return addr, o.word[1], success
}

func (l *library) closeAlloc(addr uintptr) result { return l.drop(l.ipcCloseMem, addr) }

func (l *library) hostToo(device int) (bool, result) {
	o := take()
	defer o.done()
	h, r := l.handle(o, device)
	if r != success {
		return false, r
	}
	o.word[0] = 0
	r = l.call(l.deviceGetAttribute, o.at(0), concurrently, h)
	return o.int32(0) != 0, r
}
