/*
 * The set of watched addresses. The core writes it, one thread at a time; handlers read it at any moment. Old arrays
 * are never freed, because readers may still use them: arrays double, so all old ones together are no larger than the
 * last.
 */
#define _GNU_SOURCE
#include "checker.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct spans {
	size_t n, room;
	struct span span[];
};

/* A set of spans. */
struct set {
	_Atomic(struct spans *) now;
	atomic_uint changes; /* odd while the array is being written */
};

static struct set watched, registered, aliases;
atomic_bool check_some_registered;

/* The first span that ends after address, in an array that may change meanwhile. */
static int overlaps(const struct spans *s, uintptr_t low, uintptr_t high)
{
	size_t first = 0, end = s->n <= s->room ? s->n : s->room;
	while (first < end) {
		size_t middle = first + (end - first) / 2;
		if (s->span[middle].high > low)
			end = middle;
		else
			first = middle + 1;
	}
	return first < s->n && first < s->room && s->span[first].low < high;
}

/* Whether a part of a range is in a set. */
static int has(struct set *set, uintptr_t address, size_t length)
{
	uintptr_t end = address + length < address ? UINTPTR_MAX : address + length;
	for (;;) {
		unsigned before = atomic_load_explicit(&set->changes, memory_order_acquire);
		struct spans *s = atomic_load_explicit(&set->now, memory_order_acquire);
		int result = s ? overlaps(s, address, end) : 0;
		atomic_thread_fence(memory_order_acquire);
		if (!(before & 1) && atomic_load_explicit(&set->changes, memory_order_relaxed) == before)
			return result;
	}
}

int check_watched_range(uintptr_t address, size_t length)
{
	return has(&watched, address, length);
}

int check_registered_range(uintptr_t address, size_t length)
{
	return has(&registered, address, length);
}

int check_watched(uintptr_t address)
{
	return check_watched_range(address, 1);
}

static void replace(struct set *set, const uint64_t *pairs, size_t n)
{
	struct spans *s = atomic_load(&set->now);
	if (!s || s->room < n) {
		size_t room = n < 64 ? 64 : 2 * n;
		s = malloc(sizeof *s + room * sizeof s->span[0]);
		if (!s)
			return;
		s->n = 0;
		s->room = room;
	}
	atomic_fetch_add(&set->changes, 1);
	for (size_t i = 0; i < n; i++)
		s->span[i] = (struct span){pairs[2 * i], pairs[2 * i + 1]};
	s->n = n;
	atomic_store_explicit(&set->now, s, memory_order_release);
	atomic_fetch_add(&set->changes, 1);
}

void check_set_spans(const uint64_t *pairs, size_t n)
{
	replace(&watched, pairs, n);
}

void check_set_registered(const uint64_t *pairs, size_t n)
{
	replace(&registered, pairs, n);
	atomic_store(&check_some_registered, n != 0);
}

void check_set_aliases(const uint64_t *pairs, size_t n)
{
	replace(&aliases, pairs, n);
}

int check_any_spans(void)
{
	struct spans *s = atomic_load_explicit(&watched.now, memory_order_acquire);
	return s && s->n;
}

static _Atomic uintptr_t device_low, device_high; /* set once, before there is device memory */

int check_device(uintptr_t address)
{
	if (address >= atomic_load_explicit(&device_low, memory_order_relaxed) &&
	    address < atomic_load_explicit(&device_high, memory_order_relaxed))
		return 1;
	return has(&aliases, address, 1);
}

void check_set_device(uint64_t low, uint64_t high)
{
	atomic_store(&device_low, low);
	atomic_store(&device_high, high);
}

/*
 * Whether pages of pinned memory have bytes of an allocation: a byte for each page, in memory that is mapped on use.
 * The window is set before there is such memory; the core writes, one thread at a time.
 */
enum { PAGE = 4096 };

static unsigned char *_Atomic pages; /* NULL: unknown */
static uintptr_t pinned_low, pinned_high;

int check_pinned(uintptr_t address)
{
	return atomic_load_explicit(&pages, memory_order_acquire) && address >= pinned_low && address < pinned_high;
}

int check_fence(uintptr_t address)
{
	unsigned char *p = atomic_load_explicit(&pages, memory_order_acquire);
	return p && address >= pinned_low && address < pinned_high && !p[(address - pinned_low) / PAGE];
}

uintptr_t check_fence_in(uintptr_t address, uintptr_t end)
{
	unsigned char *p = atomic_load_explicit(&pages, memory_order_acquire);
	uintptr_t last = end < pinned_high ? end : pinned_high;
	if (!p || address < pinned_low || address >= last)
		return end;
	size_t first = (address - pinned_low) / PAGE, n = (last - 1 - pinned_low) / PAGE + 1 - first;
	unsigned char *fence = memchr(p + first, 0, n);
	if (!fence)
		return end;
	uintptr_t at = pinned_low + (uintptr_t)(fence - p) * PAGE;
	return at > address ? at : address;
}

void check_set_pinned(uint64_t low, uint64_t high)
{
	if (low >= high || atomic_load(&pages))
		return;
	void *table = mmap(NULL, (high - low) / PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (table == MAP_FAILED)
		return;
	pinned_low = low;
	pinned_high = high;
	atomic_store_explicit(&pages, table, memory_order_release);
}

void check_set_pages(uint64_t low, uint64_t high, int there)
{
	unsigned char *p = atomic_load(&pages);
	if (p && low >= pinned_low && high <= pinned_high)
		memset(p + (low - pinned_low) / PAGE, there, (high - low) / PAGE);
}
