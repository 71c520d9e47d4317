package cuda

import (
	"runtime"
	"sync/atomic"
	"unsafe"

	"ropeway/internal/driver/cuda/kernels"
)

// awaitEntry is entry i of a table that is being written, once it has the tag.
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

// fewOf is the parameters that a launch has.
func fewOf(params []byte) (p kernels.FewParams) {
	if n := copy(unsafe.Slice((*byte)(unsafe.Pointer(&p)), unsafe.Sizeof(p)), params); n != int(unsafe.Sizeof(p)) {
		panic("BUG: parameters are missing")
	}
	return p
}
