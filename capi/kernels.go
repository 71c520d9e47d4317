//go:build cgo

package main

// #include <stdint.h>
//
// typedef void (*ropeway_call_info)(void *info, void *data);
//
// static void call_info(uintptr_t f, uintptr_t info, uintptr_t data)
// {
// 	((ropeway_call_info)f)((void *)info, (void *)data);
// }
import "C"

import (
	"ropeway/internal/core"
	"ropeway/internal/core/launch"
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

func opExceptionFunc(slot uint64) launch.OpExceptionFunc {
	if slot == 0 {
		return nil
	}
	return func(info, data core.Addr) { C.call_info(C.uintptr_t(slot), C.uintptr_t(info), C.uintptr_t(data)) }
}
