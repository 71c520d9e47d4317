/*
 * Registered memory that the program removes: it is freed, reallocated, unmapped, moved or mapped over. These
 * functions override libc's, or those of an allocator or a sanitizer that was loaded after this library. They report
 * to the core first; then none of the memory is closed, and the next function of that name does the work. While
 * nothing is registered, they only add a few loads. Pinned memory passed to the C library is reported too.
 *
 * Nothing is reported in a forked child, on a signal stack, or while the thread is already in the core: the core
 * cannot be entered then. The core itself calls these functions too, but never for memory of the program.
 */
#define _GNU_SOURCE
#include "checker.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
	PAGE = 4096,
	SURE = 64 << 20, /* below the top of a stack: the kernel maps nothing else there, whatever the limit of the stack is */
};

typedef void (*free_function)(void *);
typedef void *(*realloc_function)(void *, size_t);
typedef void *(*reallocarray_function)(void *, size_t, size_t);
typedef size_t (*usable_function)(void *);
typedef int (*owns_function)(const volatile void *);
typedef int (*munmap_function)(void *, size_t);
typedef void *(*mremap_function)(void *, size_t, size_t, int, ...);
typedef void *(*mmap_function)(void *, size_t, int, int, int, off_t);

/* The next functions of these names. Threads that look them up at the same time write the same values. */
static _Atomic free_function next_free;
static _Atomic realloc_function next_realloc;
static _Atomic reallocarray_function next_reallocarray;
static _Atomic usable_function next_usable;
/* A sanitizer's function, else NULL: its malloc_usable_size ends the process for an address that is not a block. */
static _Atomic owns_function owns;
static _Atomic munmap_function next_munmap;
static _Atomic mremap_function next_mremap;
static _Atomic mmap_function next_mmap;

/* The thread looks functions up: dlsym may use the allocator, which it must not wait for. */
static _Thread_local int looking __attribute__((tls_model("initial-exec")));

/* Libraries are initialised after those they need, and may call free earlier: so the functions below call it too. */
__attribute__((constructor)) static void look_up(void)
{
	if (looking)
		return;
	looking = 1;
	owns = (owns_function)(uintptr_t)dlsym(RTLD_DEFAULT, "__sanitizer_get_ownership");
	next_usable = (usable_function)(uintptr_t)dlsym(RTLD_NEXT, "malloc_usable_size");
	next_realloc = (realloc_function)(uintptr_t)dlsym(RTLD_NEXT, "realloc");
	next_reallocarray = (reallocarray_function)(uintptr_t)dlsym(RTLD_NEXT, "reallocarray");
	next_munmap = (munmap_function)(uintptr_t)dlsym(RTLD_NEXT, "munmap");
	next_mremap = (mremap_function)(uintptr_t)dlsym(RTLD_NEXT, "mremap");
	next_mmap = (mmap_function)(uintptr_t)dlsym(RTLD_NEXT, "mmap");
	next_free = (free_function)(uintptr_t)dlsym(RTLD_NEXT, "free");
	looking = 0;
}

static int some_registered(void)
{
	return atomic_load_explicit(&check_some_registered, memory_order_relaxed);
}

/* Whether a block to be freed may be registered memory, or is pinned memory, which the C library did not allocate. */
static int judged(const void *block)
{
	return some_registered() || check_pinned((uintptr_t)block);
}

static int on_signal_stack(void)
{
	stack_t stack;
	return sigaltstack(NULL, &stack) == 0 && stack.ss_flags & SS_ONSTACK;
}

static struct span sanitizer_text; /* written once, by preparing */

/* The innermost functions of a stack may be those of a sanitizer that called us. */
static void leave_out_sanitizer(ropeway_call *access)
{
	uint32_t first = 0;
	while (first < access->depth && check_in(sanitizer_text, access->stack[first] - 1))
		first++;
	if (!first || first == access->depth)
		return;
	access->depth -= first;
	memmove(access->stack, access->stack + first, access->depth * sizeof access->stack[0]);
}

/* Reports to the core that memory is about to be removed. */
static void report(uintptr_t address, size_t length, uint64_t how, uint64_t argument)
{
	if (!check_core || check_forked())
		return;
	int error = errno;
	struct self *me = check_known();
	if (!me->asking && !on_signal_stack()) {
		ropeway_call access = {.function = ROPEWAY_NO_CALL};
		check_describe(&access, 0);
		leave_out_sanitizer(&access);
		uint64_t a[] = {address, length, how, argument, (uintptr_t)&access};
		me->asking++;
		check_core(ROPEWAY_VANISH, NULL, a);
		me->asking--;
	}
	errno = error;
}

/* The same, if some of it is registered. */
__attribute__((noinline)) static void vanishes(uintptr_t address, size_t length, uint64_t how, uint64_t argument)
{
	if (length && check_registered_range(address, length))
		report(address, length, how, argument);
}

/*
 * Registered memory below the frames of a thread, on its own stack, was a variable of a function that has returned.
 * Nothing follows if the thread is on another stack (of a signal or a coroutine).
 */
void check_left(struct self *me, uintptr_t frame)
{
	pthread_attr_t attributes;
	if (!me->stack.high) {
		void *low;
		size_t size;
		me->stack = (struct span){1, 1};
		if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
			if (pthread_attr_getstack(&attributes, &low, &size) == 0) {
				uintptr_t high = (uintptr_t)low + size;
				me->stack = (struct span){size < SURE ? (uintptr_t)low : high - SURE, high};
			}
			pthread_attr_destroy(&attributes);
		}
	}
	if (!check_in(me->stack, frame) || !check_registered_range(me->stack.low, frame - me->stack.low))
		return;
	uint64_t a[] = {me->stack.low, frame - me->stack.low, ROPEWAY_RETURNED, 0, (uintptr_t)&me->call};
	me->asking++;
	check_core(ROPEWAY_VANISH, NULL, a);
	me->asking--;
}

/* The same for a block of the allocator. Its size is looked up only if something is registered in it or above it. */
__attribute__((noinline)) static void block_vanishes(void *block, uint64_t how, uint64_t argument)
{
	uintptr_t address = (uintptr_t)block;
	if (check_pinned(address) && !check_registered_range(address, 1)) { /* no block of the allocator at all */
		report(address, 1, how, argument);
		return;
	}
	if (!block || !next_usable || !check_registered_range(address, UINTPTR_MAX - address))
		return;
	if ((owns && !owns(block)) || (check_watched(address) && !check_registered_range(address, 1)))
		return; /* not a block: the memory before it must not be read */
	vanishes(address, next_usable(block), how, argument);
}

EXPORT void free(void *block)
{
	if (UNLIKELY(!next_free))
		look_up();
	if (UNLIKELY(!next_free))
		return; /* memory from dlsym, which happens once */
	if (UNLIKELY(judged(block)))
		block_vanishes(block, ROPEWAY_FREED, 0);
	next_free(block);
}

EXPORT void *realloc(void *block, size_t size)
{
	if (UNLIKELY(!next_realloc))
		look_up();
	if (UNLIKELY(!next_realloc)) {
		errno = ENOMEM;
		return NULL;
	}
	if (UNLIKELY(judged(block)))
		block_vanishes(block, ROPEWAY_REALLOCATED, size);
	return next_realloc(block, size);
}

EXPORT void *reallocarray(void *block, size_t n, size_t size)
{
	size_t whole;
	if (UNLIKELY(!next_reallocarray))
		look_up();
	if (UNLIKELY(judged(block)) && !__builtin_mul_overflow(n, size, &whole))
		block_vanishes(block, ROPEWAY_REALLOCATED, whole);
	if (UNLIKELY(!next_reallocarray)) {
		errno = ENOMEM;
		return NULL;
	}
	return next_reallocarray(block, n, size);
}

/* Of a sanitizer: its own operator delete does not call free, and symbols of the program take precedence over ours. */
static void sanitizer_allocates(const volatile void *block, size_t size)
{
	(void)block;
	(void)size;
}

static void sanitizer_frees(const volatile void *block)
{
	if (some_registered())
		block_vanishes((void *)(uintptr_t)block, ROPEWAY_FREED, 0);
}

void check_vanish_prepare(void)
{
	static atomic_bool done;
	typedef int (*install_function)(void (*)(const volatile void *, size_t), void (*)(const volatile void *));
	void *found = dlsym(RTLD_DEFAULT, "__sanitizer_install_malloc_and_free_hooks");
	install_function install = (install_function)(uintptr_t)found;
	if (!install || atomic_exchange(&done, 1))
		return;
	sanitizer_text = check_text_of(found);
	install(sanitizer_allocates, sanitizer_frees);
}

/* The length in whole pages; 0 if the kernel will refuse it. */
static size_t pages(const void *address, size_t length)
{
	size_t whole = (length + PAGE - 1) & ~(size_t)(PAGE - 1);
	return (uintptr_t)address % PAGE || whole < length ? 0 : whole;
}

EXPORT int munmap(void *address, size_t length)
{
	if (UNLIKELY(!next_munmap))
		look_up();
	if (UNLIKELY(some_registered()))
		vanishes((uintptr_t)address, pages(address, length), ROPEWAY_UNMAPPED, 0);
	return next_munmap(address, length);
}

/* Growing may work in place: the memory moves only if that fails. An old size of 0 makes a second mapping. */
EXPORT void *mremap(void *address, size_t old, size_t size, int flags, ...)
{
	va_list list;
	va_start(list, flags);
	void *to = flags & MREMAP_FIXED ? va_arg(list, void *) : NULL;
	va_end(list);
	if (UNLIKELY(!next_mremap))
		look_up();
	if (UNLIKELY(some_registered()) && old) {
		uintptr_t at = (uintptr_t)address;
		size_t before = pages(address, old), after = pages(address, size);
		int moves = flags & ~MREMAP_MAYMOVE, error = errno;
		if (!moves && before < after && flags & MREMAP_MAYMOVE && check_registered_range(at, before)) {
			void *grown = next_mremap(address, old, size, flags & ~MREMAP_MAYMOVE);
			if (grown != MAP_FAILED)
				return grown;
			errno = error;
			moves = 1;
		}
		if (moves)
			vanishes(at, before, ROPEWAY_MOVED, size);
		else if (after < before)
			vanishes(at + after, before - after, ROPEWAY_UNMAPPED, 0);
	}
	if (UNLIKELY(some_registered()) && flags & MREMAP_FIXED)
		vanishes((uintptr_t)to, pages(to, size), ROPEWAY_REPLACED, 0);
	return next_mremap(address, old, size, flags, to);
}

EXPORT void *mmap(void *address, size_t length, int prot, int flags, int fd, off_t at)
{
	if (UNLIKELY(!next_mmap))
		look_up();
	if (UNLIKELY(some_registered()) && (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) == MAP_FIXED)
		vanishes((uintptr_t)address, pages(address, length), ROPEWAY_REPLACED, 0);
	return next_mmap(address, length, prot, flags, fd, at);
}

EXPORT void *mmap64(void *address, size_t length, int prot, int flags, int fd, off64_t at)
	__attribute__((alias("mmap")));
