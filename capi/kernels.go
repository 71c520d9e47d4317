//go:build cgo

package main

// #include <stdint.h>
// #include <string.h>
//
// #include "include/ropeway/kernel.h"
//
// typedef int (*ropeway_call_kernel)(const ropeway_function *f, const ropeway_block *block, uint64_t *touches,
// 	uint32_t most, uint32_t *touched);
//
// // Behind a block there is room for the reason why a function failed, as text; reserved says how much. It is for
// // functions of the Python package.
// typedef struct { ropeway_block block; char why[512]; } explained;
//
// static int call_block(uintptr_t call, uintptr_t function, uintptr_t data, uint32_t idx, uint32_t num, uint32_t sub,
// 	uintptr_t args, size_t size, uint64_t *touches, uint32_t most, uint32_t *touched, char *why)
// {
// 	const ropeway_function f = {NULL, (int (*)(const ropeway_block *, void *))function, (void *)data};
// 	explained e = {.block = {idx, num, sub, sizeof e.why, (const void *)args, size}};
// 	const int r = ((ropeway_call_kernel)call)(&f, &e.block, touches, most, touched);
// 	if (r)
// 		memcpy(why, e.why, sizeof e.why);
// 	return r;
// }
import "C"

import (
	"errors"
	"fmt"
	"slices"

	"ropeway/internal/core"
	"ropeway/internal/core/launch"
	"ropeway/internal/kernel"
	"ropeway/internal/kernel/native"
)

// useKernels registers the functions of the shim that run kernels: (run, stop, prepare, call, watch).
func useKernels(a *slots) {
	native.Use(uintptr(a[0]), uintptr(a[1]), uintptr(a[2]), uintptr(a[4]))
	callKernel = C.uintptr_t(a[3])
}

// callKernel is ropeway_kernel_call; written before the first thread enters.
var callKernel C.uintptr_t

// function is a ropeway_function of the program. Its data may be a number, which Go does not allow in a pointer.
type function struct{ name, call, data uintptr }

const _ = -uint(C.sizeof_ropeway_function - 3*8) // it has that layout

// callBlock calls a function of the program for a block.
func callBlock(f function, b *kernel.Block) error {
	var list *C.uint64_t
	var most, touched C.uint32_t
	var touches []C.uint64_t
	if b.Watched() {
		touches = make([]C.uint64_t, 3*kernel.MostTouches)
		list, most = &touches[0], kernel.MostTouches
	}
	var why [C.sizeof_explained - C.sizeof_ropeway_block]C.char
	r := C.call_block(callKernel, C.uintptr_t(f.call), C.uintptr_t(f.data), C.uint32_t(b.Index), C.uint32_t(b.Num),
		C.uint32_t(b.Sub), C.uintptr_t(b.Args), C.size_t(b.Size), list, most, &touched, &why[0])
	for i := range min(touched, most) {
		b.Touch(uintptr(touches[3*i]), uint64(touches[3*i+1]), touches[3*i+2] != 0)
	}
	switch {
	case r == 0:
		return nil
	case why[0] != 0:
		return errors.New(C.GoStringN(&why[0], C.int(slices.Index(why[:], 0))))
	}
	return fmt.Errorf("the function returned %d", r)
}

// loadFunctions is ropeway_load_functions.
func loadFunctions(t *thread, a *slots) *core.Error {
	const api = "ropeway_load_functions"
	switch {
	case a[0] == 0 || a[1] == 0:
		return core.Refused(api, "list", "has no function")
	case a[2] == 0:
		return core.IsNull(api, "binary")
	}
	list := map[string]kernel.Func{}
	for i, f := range core.Array(pointer[function](a[0]), a[1]) {
		if f.name == 0 || f.call == 0 {
			return core.Refused(api, "list", "has no name or no function").At(i)
		}
		name := core.CString(pointer[byte](uint64(f.name)))
		if list[name] != nil {
			return core.Refused(api, "list", "%q is the name of another function of the list, too", name).At(i)
		}
		list[name] = func(b *kernel.Block) error { return callBlock(f, b) }
	}
	image := kernel.Functions(list)
	return launch.BinaryLoadFromData(t.Thread, core.AddrOf(image), uint64(len(image)), nil, pointer[core.Handle](a[2]))
}
