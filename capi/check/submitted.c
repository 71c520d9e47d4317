/*
 * Asynchronous I/O: libaio and io_uring. The kernel accesses the memory later, and no filter sees the addresses, so
 * all memory known to be complete is opened before. A filter could stop these calls, but children keep filters across
 * exec, and an unchecked child would be killed by it: so the functions are replaced instead.
 */
#define _GNU_SOURCE
#include "checker.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

static void open_known(void)
{
	int error = errno;
	if (check_core && !check_forked() && check_any_spans())
		check_core(ROPEWAY_OPEN_KNOWN, NULL, NULL);
	errno = error;
}

/* The next function of that name. RTLD_NEXT does not search a library that was opened with RTLD_LOCAL. */
static void *next_of(const char *name, const char *library)
{
	void *found = dlsym(RTLD_NEXT, name);
	void *opened = found ? NULL : dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
	return opened ? dlsym(opened, name) : found;
}

#define SUBMITS(result, name, library, parameters, arguments) \
	EXPORT result name parameters; \
	result name parameters \
	{ \
		static _Atomic(result(*) parameters) next; \
		if (!next) \
			next = (result(*) parameters)(uintptr_t)next_of(#name, library); \
		open_known(); \
		return next ? next arguments : -ENOSYS; \
	}

SUBMITS(int, io_submit, "libaio.so.1", (void *context, long n, void **list), (context, n, list))
SUBMITS(int, io_uring_submit, "liburing.so.2", (void *ring), (ring))
SUBMITS(int, io_uring_submit_and_wait, "liburing.so.2", (void *ring, unsigned n), (ring, n))
SUBMITS(int, io_uring_submit_and_wait_timeout, "liburing.so.2", (void *ring, void *ends, unsigned n, void *limit, void *mask),
	(ring, ends, n, limit, mask))
SUBMITS(int, io_uring_enter, "liburing.so.2", (unsigned fd, unsigned n, unsigned least, unsigned flags, void *mask), (fd, n, least, flags, mask))

/* libc's generic system call. */
EXPORT long syscall(long number, ...)
{
	static _Atomic(long (*)(long, ...)) next;
	va_list list;
	long a[6];
	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	if (!next)
		next = (long (*)(long, ...))(uintptr_t)dlsym(RTLD_NEXT, "syscall");
	if (number == SYS_io_submit || number == SYS_io_uring_enter)
		open_known();
	return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
