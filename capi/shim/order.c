/*
 * Ordering for programs under ThreadSanitizer. It sees the program's threads but not the ordering in the core: that a
 * host function runs after the call that launched it and before the synchronisation that waited for it, or that
 * pinned memory is freed before it is allocated again. So the library reports it: every call is a release, and
 * callbacks, waits and allocations are acquires. Programs without the sanitizer pay nothing.
 */
#include "shim.h"

extern void __tsan_acquire(void *object) WEAK;
extern void __tsan_release(void *object) WEAK;

static ropeway_entry core;
static _Atomic(void *) order; /* the core uses the same object around its callbacks (capi/callbacks.go) */

/* Whether earlier work of other threads is visible after the call. */
static int takes_over(uint32_t function)
{
	switch (function) {
	case ROPEWAY_aclrtSynchronizeStream:
	case ROPEWAY_aclrtSynchronizeStreamWithTimeout:
	case ROPEWAY_aclrtSynchronizeDevice:
	case ROPEWAY_aclrtSynchronizeDeviceWithTimeout:
	case ROPEWAY_aclrtSynchronizeEvent:
	case ROPEWAY_aclrtSynchronizeEventWithTimeout:
	case ROPEWAY_aclrtStreamQuery:
	case ROPEWAY_aclrtQueryEvent:
	case ROPEWAY_aclrtQueryEventStatus:
	case ROPEWAY_aclrtProcessReport:
	case ROPEWAY_aclrtDestroyStream:
	case ROPEWAY_aclrtDestroyStreamForce:
	case ROPEWAY_aclrtStreamAbort:
	case ROPEWAY_aclrtDeviceTaskAbort:
	case ROPEWAY_aclrtDestroyContext:
	case ROPEWAY_aclrtResetDevice:
	case ROPEWAY_aclrtResetDeviceForce:
	case ROPEWAY_aclrtMallocHost:
	case ROPEWAY_aclrtMallocHostWithCfg:
	case ROPEWAY_aclFinalize:
		return 1;
	}
	return 0;
}

static uint64_t ordered(uint32_t function, ropeway_thread thread, uint64_t *slots)
{
	void *object = atomic_load(&order);
	__tsan_release(object);
	uint64_t result = core(function, thread, slots);
	if (takes_over(function))
		__tsan_acquire(object);
	return result;
}

ropeway_entry ropeway_ordered(ropeway_entry entry, void *object)
{
	if (!__tsan_acquire || !__tsan_release || !object)
		return entry;
	core = entry;
	atomic_store(&order, object);
	return ordered;
}

void ropeway_take_over(void)
{
	void *object = atomic_load(&order);
	if (object)
		__tsan_acquire(object);
}

void ropeway_publish(void)
{
	void *object = atomic_load(&order);
	if (object)
		__tsan_release(object);
}
