//go:build cgo

package main

// #include <pthread.h>
// #include <stdlib.h>
// #include <stdint.h>
//
// typedef void (*ropeway_call_data)(void *data);
// typedef void (*ropeway_call_info)(void *info, void *data);
// typedef void (*ropeway_call_device)(int32_t device, int32_t state, void *args);
// typedef void (*ropeway_call_stream)(void *stream, int32_t state, void *args);
// typedef int32_t (*ropeway_call_abort)(int32_t device, int32_t stage, uint32_t timeout, void *args);
// typedef int (*ropeway_call_init)(const char *text, size_t n, void *data);
// typedef int (*ropeway_call_finalize)(void *data);
//
// // Of the thread sanitizer, if the program has it: see shim/order.c.
// extern void __tsan_acquire(void *object) __attribute__((weak));
// extern void __tsan_release(void *object) __attribute__((weak));
// extern char ropeway_order;
//
// // A function of the program may be a cancellation point, but a thread that is cancelled here would leave Go's stack
// // in the
// // middle: it is cancelled when the call has returned.
// static int before(void)
// {
// 	int cancel;
// 	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
// 	if (__tsan_acquire)
// 		__tsan_acquire(&ropeway_order);
// 	return cancel;
// }
//
// static void after(int cancel)
// {
// 	if (__tsan_release)
// 		__tsan_release(&ropeway_order);
// 	pthread_setcancelstate(cancel, NULL);
// }
//
// static void call_data(uintptr_t f, uintptr_t data)
// {
// 	int cancel = before();
// 	((ropeway_call_data)f)((void *)data);
// 	after(cancel);
// }
//
// static void call_info(uintptr_t f, uintptr_t info, uintptr_t data)
// {
// 	int cancel = before();
// 	((ropeway_call_info)f)((void *)info, (void *)data);
// 	after(cancel);
// }
//
// static void call_device(uintptr_t f, int32_t device, int32_t state, uintptr_t args)
// {
// 	int cancel = before();
// 	((ropeway_call_device)f)(device, state, (void *)args);
// 	after(cancel);
// }
//
// static void call_stream(uintptr_t f, uintptr_t stream, int32_t state, uintptr_t args)
// {
// 	int cancel = before();
// 	((ropeway_call_stream)f)((void *)stream, state, (void *)args);
// 	after(cancel);
// }
//
// static int32_t call_abort(uintptr_t f, int32_t device, int32_t stage, uint32_t timeout, uintptr_t args)
// {
// 	int cancel = before();
// 	int32_t result = ((ropeway_call_abort)f)(device, stage, timeout, (void *)args);
// 	after(cancel);
// 	return result;
// }
//
// static int call_init(uintptr_t f, const char *text, size_t n, uintptr_t data)
// {
// 	int cancel = before();
// 	int result = ((ropeway_call_init)f)(text, n, (void *)data);
// 	after(cancel);
// 	return result;
// }
//
// static int call_finalize(uintptr_t f, uintptr_t data)
// {
// 	int cancel = before();
// 	int result = ((ropeway_call_finalize)f)((void *)data);
// 	after(cancel);
// 	return result;
// }
import "C"

import (
	"slices"
	"sync/atomic"
	"unsafe"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/launch"
	"ropeway/internal/core/model"
	coreprocess "ropeway/internal/core/process"
)

// Functions of the program, made callable for the core. NULL stays nil. The core calls them with no lock held; a call
// runs in the C thread that is inside the API, or in a thread of the Go runtime.

// hostFunc is an aclrtCallback or an aclrtHostFunc.
func hostFunc(slot uint64) func(core.Addr) {
	if slot == 0 {
		return nil
	}
	return func(data core.Addr) {
		if list := retired.Load(); list == nil || !slices.Contains(*list, slot) {
			C.call_data(C.uintptr_t(slot), C.uintptr_t(data))
		}
	}
}

// retired has the functions that must not be called any longer; nil: none.
var retired atomic.Pointer[[]uint64]

// retire adds a function to retired.
func retire(slot uint64) {
	for {
		old := retired.Load()
		list := []uint64{slot}
		if old != nil {
			list = append(list, *old...)
		}
		if retired.CompareAndSwap(old, &list) {
			return
		}
	}
}

func opExceptionFunc(slot uint64) launch.OpExceptionFunc {
	if slot == 0 {
		return nil
	}
	return func(info, data core.Addr) { C.call_info(C.uintptr_t(slot), C.uintptr_t(info), C.uintptr_t(data)) }
}

func deviceStateFunc(slot uint64) core.DeviceStateFunc {
	if slot == 0 {
		return nil
	}
	return func(device int32, state abi.DeviceState, args core.Addr) {
		C.call_device(C.uintptr_t(slot), C.int32_t(device), C.int32_t(state), C.uintptr_t(args))
	}
}

func streamStateFunc(slot uint64) core.StreamStateFunc {
	if slot == 0 {
		return nil
	}
	return func(stream core.Handle, state abi.StreamState, args core.Addr) {
		C.call_stream(C.uintptr_t(slot), C.uintptr_t(stream), C.int32_t(state), C.uintptr_t(args))
	}
}

func taskAbortFunc(slot uint64) core.TaskAbortFunc {
	if slot == 0 {
		return nil
	}
	return func(device int32, stage abi.DeviceTaskAbortStage, timeout uint32, args core.Addr) int32 {
		return int32(C.call_abort(C.uintptr_t(slot), C.int32_t(device), C.int32_t(stage), C.uint32_t(timeout),
			C.uintptr_t(args)))
	}
}

func exceptionFunc(slot uint64) core.Func[core.ExceptionFunc] {
	if slot == 0 {
		return core.Func[core.ExceptionFunc]{}
	}
	return core.Func[core.ExceptionFunc]{Key: uintptr(slot), Call: hostFunc(slot)}
}

func modelFunc(slot uint64) core.Func[model.ModelFunc] {
	if slot == 0 {
		return core.Func[model.ModelFunc]{}
	}
	return core.Func[model.ModelFunc]{Key: uintptr(slot), Call: hostFunc(slot)}
}

func initFunc(slot uint64) core.Func[coreprocess.InitFunc] {
	if slot == 0 {
		return core.Func[coreprocess.InitFunc]{}
	}
	return core.Func[coreprocess.InitFunc]{Key: uintptr(slot), Call: func(config string, data core.Addr) abi.Code {
		text := C.CString(config)
		defer C.free(unsafe.Pointer(text))
		return abi.Code(C.call_init(C.uintptr_t(slot), text, C.size_t(len(config)), C.uintptr_t(data)))
	}}
}

func finalizeFunc(slot uint64) core.Func[coreprocess.FinalizeFunc] {
	if slot == 0 {
		return core.Func[coreprocess.FinalizeFunc]{}
	}
	return core.Func[coreprocess.FinalizeFunc]{Key: uintptr(slot), Call: func(data core.Addr) abi.Code {
		return abi.Code(C.call_finalize(C.uintptr_t(slot), C.uintptr_t(data)))
	}}
}
