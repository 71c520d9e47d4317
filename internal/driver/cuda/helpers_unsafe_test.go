package cuda

import (
	"runtime"
	"sync/atomic"
	"unsafe"

	"ropeway/internal/driver/cuda/kernels"
)

// awaitEntry waits until entry i of a table has the tag, and returns it.
func awaitEntry(table uintptr, i int, tag kernels.Tag) kernels.Entry {
	at := &entriesAt(table, i+1)[i]
	for {
		e := kernels.Entry{To: atomic.LoadUint64(&at.To), From: atomic.LoadUint64(&at.From)}
		if e.Has(tag) {
			return e
		}
		runtime.Gosched()
	}
}

// fewOf returns the parameters of a launch.
func fewOf(params []byte) (p kernels.FewParams) {
	if n := copy(unsafe.Slice((*byte)(unsafe.Pointer(&p)), unsafe.Sizeof(p)), params); n != int(unsafe.Sizeof(p)) {
		panic("BUG: parameters are missing")
	}
	return p
}
