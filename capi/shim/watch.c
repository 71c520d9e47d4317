/*
 * Records the pages of device memory that kernels access. The checker closes device memory while a kernel runs. A
 * page is opened when it is accessed, for reads or for both, and the access is recorded for the core. A fault of any
 * thread counts: kernels may have threads of their own, and host threads must not access this memory.
 *
 * Ownership. The core owns the struct that `watching` points to. Readers count themselves in `users`, and
 * ropeway_kernel_watch(NULL) returns when there are none.
 */
#define _GNU_SOURCE
#include "shim.h"

#include <errno.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel.h"

enum { PAGE = 4096, OPEN = PROT_READ | PROT_WRITE };

enum { PATIENCE = 16 }; /* consecutive faults of a thread at one address before all pages are opened */

static ropeway_watch *_Atomic watching;
static _Atomic uint32_t users;
static _Thread_local struct {
	uintptr_t address;
	unsigned times;
} last __attribute__((tls_model("initial-exec")));

EXPORT int ropeway_kernel_watch(ropeway_watch *w)
{
	atomic_store(&watching, w);
	while (!w && atomic_load(&users))
		sched_yield();
	return 0;
}

static int protect(uintptr_t at, size_t size, int prot)
{
	return (int)syscall(SYS_mprotect, at, size, prot); /* not mprotect(), which sanitizers replace */
}

/* Opens all pages: later accesses are not recorded. */
static void open_all(ropeway_watch *w)
{
	const ropeway_range *list = (const ropeway_range *)(uintptr_t)w->ranges;
	if (!atomic_exchange(&w->lost, 1))
		for (uint32_t i = 0; i < w->count; i++)
			protect(list[i].low, list[i].high - list[i].low, OPEN);
}

static const ropeway_range *find(const ropeway_watch *w, uintptr_t address)
{
	const ropeway_range *list = (const ropeway_range *)(uintptr_t)w->ranges;
	uint32_t low = 0, high = w->count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (address >= list[middle].high)
			low = middle + 1;
		else
			high = middle;
	}
	return low < w->count && address >= list[low].low ? &list[low] : NULL;
}

static int opens(ropeway_watch *w, uintptr_t address, int write)
{
	const ropeway_range *r = find(w, address);
	if (!r)
		return 0;
	uintptr_t page = address & ~(uintptr_t)(PAGE - 1);
	uint64_t number = r->first + (page - r->low) / PAGE;
	uint8_t what = write ? ROPEWAY_WRITTEN : ROPEWAY_READ;
	uint8_t before = atomic_fetch_or((_Atomic uint8_t *)(uintptr_t)w->pages + number, what);
	if (!before) {
		uint32_t n = atomic_fetch_add(&w->touched, 1);
		if (n < w->most)
			((uint32_t *)(uintptr_t)w->list)[n] = (uint32_t)number;
		else
			open_all(w);
	}
	last.times = last.address == address ? last.times + 1 : 0;
	last.address = address;
	if (last.times == PATIENCE) /* an emulator that does not report which accesses are writes */
		open_all(w);
	int prot = (before | what) & ROPEWAY_WRITTEN || atomic_load(&w->lost) ? OPEN : PROT_READ;
	if (protect(page, PAGE, prot)) /* there are too many mappings */
		open_all(w);
	return 1;
}

int ropeway_watch_opens(uintptr_t address, int write)
{
	int error = errno, opened = 0;
	atomic_fetch_add(&users, 1);
	ropeway_watch *w = atomic_load(&watching);
	if (w)
		opened = opens(w, address, write);
	atomic_fetch_sub(&users, 1);
	errno = error;
	return opened;
}
