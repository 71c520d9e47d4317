/*
 * A core in C with a very small checker: one piece of pinned memory, one range of bytes in flight. It returns what the C side
 * of the checker asks and remembers it, so that the C side can be proven by itself.
 *
 * aclrtMallocHost gives memory of the window, aclrtMemcpyAsync puts its destination (if that is in the window, else its source)
 * in flight, aclrtSynchronizeStream makes that known to be complete. Pages stay closed until they are touched.
 */
#define _GNU_SOURCE
#include "check_core.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { PAGE = 4096 };

static unsigned char *window;
static size_t used;
static struct { uintptr_t low, high; int written; } flight;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static const ropeway_checker *checker;
static struct check_seen seen;

static void make_window(void)
{
	int fd = memfd_create("window", 0);
	if (fd < 0 || ftruncate(fd, WINDOW))
		abort();
	window = mmap((void *)WINDOW_AT, WINDOW, PROT_NONE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
	if (window == MAP_FAILED)
		abort();
	uint64_t pair[] = {(uintptr_t)window, (uintptr_t)window + WINDOW};
	checker->spans(pair, 1);
}

static int inside(uint64_t a)
{
	return window && a - (uintptr_t)window < WINDOW;
}

static uintptr_t page_of(uintptr_t a)
{
	return a & ~(uintptr_t)(PAGE - 1);
}

static void protect(uintptr_t low, uintptr_t high, int prot)
{
	low = page_of(low);
	if (mprotect((void *)low, page_of(high + PAGE - 1) - low, prot))
		abort();
}

static int overlaps(uintptr_t low, uintptr_t high)
{
	return low < flight.high && high > flight.low;
}

static void touch(const uint64_t *a)
{
	const ropeway_call *call = (const ropeway_call *)(uintptr_t)a[4];
	ropeway_touch *touch = (ropeway_touch *)(uintptr_t)a[5];
	seen.touches++;
	seen.address = a[0];
	seen.length = a[1];
	seen.write = (int)a[2];
	seen.instruction = a[3];
	seen.access = *call;
	if (!inside(a[0]) || a[0] - (uintptr_t)window >= used) {
		touch->what = ROPEWAY_NOT_OURS;
		return;
	}
	size_t length = a[1] ? a[1] : 1;
	uintptr_t low = page_of(a[0]), high = low + PAGE;
	if (a[1] > high - a[0])
		high = page_of(a[0] + a[1] + PAGE - 1);
	if (!call->ignored && overlaps(a[0], a[0] + length) && (flight.written || a[2])) {
		seen.findings++;
		protect(low, high, PROT_READ | PROT_WRITE);
		flight.low = flight.high = 0;
		touch->what = ROPEWAY_OPEN;
		return;
	}
	touch->what = overlaps(low, high) ? ROPEWAY_STEP : ROPEWAY_OPEN;
	touch->page = low;
	touch->length = high - low;
	touch->prot = flight.written ? PROT_NONE : PROT_READ;
	protect(low, high, PROT_READ | PROT_WRITE);
}

static void stepped(const uint64_t *a)
{
	const ropeway_touch *t = (const ropeway_touch *)(uintptr_t)a[0];
	seen.steps++;
	protect(t->page, t->page + t->length, (int)t->prot);
}

static uint64_t call(uint32_t function, const uint64_t *a)
{
	switch (function) {
	case ROPEWAY_aclrtMallocHost:
		if (!window)
			make_window();
		*(void **)(uintptr_t)a[0] = window + used;
		protect((uintptr_t)window + used, (uintptr_t)window + used + a[1], PROT_READ | PROT_WRITE);
		used += page_of(a[1] + PAGE - 1);
		return 0;
	case ROPEWAY_aclrtMemcpyAsync:
		flight.written = inside(a[0]);
		flight.low = flight.written ? a[0] : a[2];
		flight.high = flight.low + a[3];
		protect(flight.low, flight.high, flight.written ? PROT_NONE : PROT_READ);
		return 0;
	case ROPEWAY_aclrtSynchronizeStream:
		flight.low = flight.high = 0;
		return 0;
	}
	return 0;
}

EXPORT uint64_t ropeway_core_call(uint32_t function, ropeway_thread thread, uint64_t *slots);
uint64_t ropeway_core_call(uint32_t function, ropeway_thread thread, uint64_t *slots)
{
	static char token;
	static _Thread_local const ropeway_call *record;
	uint64_t result = 0;
	(void)thread;
	if (function == ROPEWAY_aclrtLaunchHostFunc) { /* the function runs inside the call */
		((void (*)(void *))(uintptr_t)slots[1])((void *)(uintptr_t)slots[2]);
		return 0;
	}
	pthread_mutex_lock(&mutex);
	switch (function) {
	case ROPEWAY_TABLE_OF_CORE:
		result = ROPEWAY_TABLE;
		break;
	case ROPEWAY_ENTER:
		result = (uintptr_t)&token;
		break;
	case ROPEWAY_CHECKER:
		checker = (const ropeway_checker *)(uintptr_t)slots[0];
		break;
	case ROPEWAY_WATCH:
		record = (const ropeway_call *)(uintptr_t)slots[0];
		break;
	case ROPEWAY_TOUCH:
		touch(slots);
		break;
	case ROPEWAY_STEPPED:
		stepped(slots);
		break;
	case ROPEWAY_SPANS:
		((uint64_t *)(uintptr_t)slots[0])[0] = (uintptr_t)window;
		((uint64_t *)(uintptr_t)slots[0])[1] = (uintptr_t)window + WINDOW;
		break;
	case ROPEWAY_NOTE:
		fprintf(stderr, "note: %s\n", (const char *)(uintptr_t)slots[0]);
		break;
	case ROPEWAY_FINDINGS:
		result = seen.findings;
		break;
	case ROPEWAY_IN_FLIGHT:
		result = overlaps(slots[0], slots[0] + slots[1]);
		break;
	case ROPEWAY_COMPLETE:
		flight.low = flight.high = 0;
		break;
	default:
		if (function < ROPEWAY_FUNCTIONS) {
			if (record)
				seen.call = *record;
			result = call(function, slots);
		}
	}
	pthread_mutex_unlock(&mutex);
	return result;
}

EXPORT struct check_seen *check_seen(void);
struct check_seen *check_seen(void)
{
	return &seen;
}

EXPORT const ropeway_checker *check_checker(void);
const ropeway_checker *check_checker(void)
{
	return checker;
}
