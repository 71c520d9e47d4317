//go:build cgo

package main

// #include <stdint.h>
//
// #include "include/ropeway/kernel.h"
//
// typedef void (*ropeway_call_info)(void *info, void *data);
//
// static void call_info(uintptr_t f, uintptr_t info, uintptr_t data)
// {
// 	((ropeway_call_info)f)((void *)info, (void *)data);
// }
//
// static int call_block(const ropeway_function *f, uint32_t idx, uint32_t num, uint32_t sub, uintptr_t args,
// 	size_t size)
// {
// 	const ropeway_block block = {idx, num, sub, 0, (const void *)args, size};
// 	return f->call(&block, f->data);
// }
import "C"

import (
	"fmt"

	"ropeway/internal/core"
	"ropeway/internal/core/launch"
	"ropeway/internal/kernel"
	"ropeway/internal/kernel/native"
)

// useKernels takes the functions of the shim that run kernels: (run, stop, prepare).
func useKernels(a *slots) { native.Use(uintptr(a[0]), uintptr(a[1]), uintptr(a[2])) }

// registerFuncSymbol is rtRegisterFuncSymbol.
func registerFuncSymbol(t *thread, a *slots) *core.Error {
	return launch.RegisterFuncSymbol(t.Thread, core.Handle(a[0]), core.Addr(a[1]), pointer[byte](a[2]))
}

// registerVariable is rtRegisterVariable.
func registerVariable(t *thread, a *slots) *core.Error {
	return launch.RegisterVariable(t.Thread, core.Handle(a[0]), core.Addr(a[1]), pointer[byte](a[2]), a[3])
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
	for i, f := range core.Array(pointer[C.ropeway_function](a[0]), a[1]) {
		if f.name == nil || f.call == nil {
			return core.Refused(api, "list", "has no name or no function").At(i)
		}
		list[C.GoString(f.name)] = func(b *kernel.Block) error {
			r := C.call_block(&f, C.uint32_t(b.Index), C.uint32_t(b.Num), C.uint32_t(b.Sub), C.uintptr_t(b.Args),
				C.size_t(b.Size))
			if r != 0 {
				return fmt.Errorf("the function returned %d", r)
			}
			return nil
		}
	}
	image := kernel.Functions(list)
	return launch.BinaryLoadFromData(t.Thread, core.AddrOf(image), uint64(len(image)), nil, pointer[core.Handle](a[2]))
}

func opExceptionFunc(slot uint64) launch.OpExceptionFunc {
	if slot == 0 {
		return nil
	}
	return func(info, data core.Addr) { C.call_info(C.uintptr_t(slot), C.uintptr_t(info), C.uintptr_t(data)) }
}
