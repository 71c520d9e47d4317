/*
 * System calls with several buffers, and those on registered memory and on device memory, which the filter does not
 * handle (system.c). These functions override libc's: they report watched buffers to the core first. Memory can be
 * closed again before the kernel accesses it, so a call that fails with EFAULT is retried a few times.
 */
#define _GNU_SOURCE
#include "checker.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#undef fread_unlocked /* libc's headers make macros of them */
#undef fwrite_unlocked

enum { TRIES = 4 };

static int is_watched(const struct iovec *piece)
{
	return piece->iov_len && check_watched_range((uintptr_t)piece->iov_base, piece->iov_len);
}

/* Whether a buffer starts in device memory. The kernel will return EFAULT, and the core describes the memory. */
static int of_device(const struct iovec *piece)
{
	return piece->iov_len && UNLIKELY(check_device((uintptr_t)piece->iov_base)) && !check_forked();
}

/* Opens device memory for a system call while a kernel runs: the kernel may have made the call. */
static int opens_for_kernel(const struct iovec *piece, int write)
{
	uintptr_t at = (uintptr_t)piece->iov_base, end = at + piece->iov_len;
	int opened = 0;
	for (; at < end && check_kernel(at, write, NULL) == ROPEWAY_OPENED; at = (at | 4095) + 1)
		opened = 1;
	return opened;
}

/* Whether one of the buffers must be reported to the core. */
static int any(const struct iovec *v, int n)
{
	for (int i = 0; v && i < n; i++)
		if (is_watched(&v[i]) || of_device(&v[i]))
			return 1;
	return 0;
}

static int open_all(const struct iovec *v, int n, int write, struct opened *o)
{
	int opened = 0;
	if (!o->fence)
		o->reach = 0;
	for (int i = 0; i < n; i++)
		if (of_device(&v[i]) && opens_for_kernel(&v[i], write))
			opened = 1;
		else if (is_watched(&v[i]) || (of_device(&v[i]) && !o->probes && !o->refused++))
			opened |= check_open((uintptr_t)v[i].iov_base, v[i].iov_len, write, o);
		else if (!o->fence)
			o->reach += v[i].iov_len;
	return opened;
}

/* libc's function of that name, looked up once. */
#define NEXT(name) \
	static _Atomic(__typeof__(&name)) next; \
	if (!next) \
	next = (__typeof__(&name))(uintptr_t)dlsym(RTLD_NEXT, #name)

/* Makes the call with the buffers of v open, and returns its result. */
#define WATCHED(v, n, writes, call) \
	do { \
		const struct iovec *pieces = (v); \
		int number = (n); \
		if (LIKELY(!check_core || !any(pieces, number))) \
			return call; \
		struct self *me = check_self(); \
		struct opened o = {0}; \
		ssize_t result; \
		int tries = 0, error = errno; \
		open_all(pieces, number, writes, &o); \
		me->judged++; /* the filter need not ask again */ \
		do { \
			errno = error; \
			result = call; \
		} while (result < 0 && errno == EFAULT && ++tries < TRIES && open_all(pieces, number, writes, &o)); \
		me->judged--; \
		error = errno; \
		if (o.fence && o.stores && (result == (ssize_t)o.reach || (result < 0 && error == EFAULT))) \
			check_ran_over(&o); \
		check_close(&o); \
		errno = error; \
		return result; \
	} while (0)

#define ONE(pointer, length) (&(struct iovec){(void *)(uintptr_t)(pointer), length})

EXPORT ssize_t read(int fd, void *buffer, size_t length)
{
	NEXT(read);
	WATCHED(ONE(buffer, length), 1, 1, next(fd, buffer, length));
}

EXPORT ssize_t write(int fd, const void *buffer, size_t length)
{
	NEXT(write);
	WATCHED(ONE(buffer, length), 1, 0, next(fd, buffer, length));
}

EXPORT ssize_t pread(int fd, void *buffer, size_t length, off_t at)
{
	NEXT(pread);
	WATCHED(ONE(buffer, length), 1, 1, next(fd, buffer, length, at));
}

EXPORT ssize_t pread64(int fd, void *buffer, size_t length, off64_t at)
{
	NEXT(pread64);
	WATCHED(ONE(buffer, length), 1, 1, next(fd, buffer, length, at));
}

EXPORT ssize_t pwrite(int fd, const void *buffer, size_t length, off_t at)
{
	NEXT(pwrite);
	WATCHED(ONE(buffer, length), 1, 0, next(fd, buffer, length, at));
}

EXPORT ssize_t pwrite64(int fd, const void *buffer, size_t length, off64_t at)
{
	NEXT(pwrite64);
	WATCHED(ONE(buffer, length), 1, 0, next(fd, buffer, length, at));
}

EXPORT ssize_t recv(int fd, void *buffer, size_t length, int flags)
{
	NEXT(recv);
	WATCHED(ONE(buffer, length), 1, 1, next(fd, buffer, length, flags));
}

EXPORT ssize_t send(int fd, const void *buffer, size_t length, int flags)
{
	NEXT(send);
	WATCHED(ONE(buffer, length), 1, 0, next(fd, buffer, length, flags));
}

EXPORT ssize_t recvfrom(int fd, void *restrict buffer, size_t length, int flags, struct sockaddr *restrict from, socklen_t *restrict size)
{
	NEXT(recvfrom);
	WATCHED(ONE(buffer, length), 1, 1, next(fd, buffer, length, flags, from, size));
}

EXPORT ssize_t sendto(int fd, const void *buffer, size_t length, int flags, const struct sockaddr *to, socklen_t size)
{
	NEXT(sendto);
	WATCHED(ONE(buffer, length), 1, 0, next(fd, buffer, length, flags, to, size));
}

EXPORT ssize_t getrandom(void *buffer, size_t length, unsigned flags)
{
	NEXT(getrandom);
	WATCHED(ONE(buffer, length), 1, 1, next(buffer, length, flags));
}

EXPORT ssize_t readv(int fd, const struct iovec *v, int n)
{
	NEXT(readv);
	WATCHED(v, n, 1, next(fd, v, n));
}

EXPORT ssize_t writev(int fd, const struct iovec *v, int n)
{
	NEXT(writev);
	WATCHED(v, n, 0, next(fd, v, n));
}

EXPORT ssize_t preadv(int fd, const struct iovec *v, int n, off_t at)
{
	NEXT(preadv);
	WATCHED(v, n, 1, next(fd, v, n, at));
}

EXPORT ssize_t preadv64(int fd, const struct iovec *v, int n, off64_t at)
{
	NEXT(preadv64);
	WATCHED(v, n, 1, next(fd, v, n, at));
}

EXPORT ssize_t pwritev(int fd, const struct iovec *v, int n, off_t at)
{
	NEXT(pwritev);
	WATCHED(v, n, 0, next(fd, v, n, at));
}

EXPORT ssize_t pwritev64(int fd, const struct iovec *v, int n, off64_t at)
{
	NEXT(pwritev64);
	WATCHED(v, n, 0, next(fd, v, n, at));
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	NEXT(recvmsg);
	WATCHED(message ? message->msg_iov : NULL, message ? (int)message->msg_iovlen : 0, 1, next(fd, message, flags));
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	NEXT(sendmsg);
	WATCHED(message ? message->msg_iov : NULL, message ? (int)message->msg_iovlen : 0, 0, next(fd, message, flags));
}

EXPORT ssize_t preadv2(int fd, const struct iovec *v, int n, off_t at, int flags)
{
	NEXT(preadv2);
	WATCHED(v, n, 1, next(fd, v, n, at, flags));
}

EXPORT ssize_t preadv64v2(int fd, const struct iovec *v, int n, off64_t at, int flags)
{
	NEXT(preadv64v2);
	WATCHED(v, n, 1, next(fd, v, n, at, flags));
}

EXPORT ssize_t pwritev2(int fd, const struct iovec *v, int n, off_t at, int flags)
{
	NEXT(pwritev2);
	WATCHED(v, n, 0, next(fd, v, n, at, flags));
}

EXPORT ssize_t pwritev64v2(int fd, const struct iovec *v, int n, off64_t at, int flags)
{
	NEXT(pwritev64v2);
	WATCHED(v, n, 0, next(fd, v, n, at, flags));
}

EXPORT ssize_t vmsplice(int fd, const struct iovec *v, size_t n, unsigned flags)
{
	NEXT(vmsplice);
	WATCHED(v, (int)n, 0, next(fd, v, n, flags));
}

/* Several messages: the buffers of each are opened, as many as can be recorded. */
#define MESSAGES(name, writes, call) \
	NEXT(name); \
	struct opened o = {0}; \
	int watched = 0, error = errno; \
	for (unsigned i = 0; check_core && messages && i < n; i++) { \
		const struct msghdr *m = &messages[i].msg_hdr; \
		if (any(m->msg_iov, (int)m->msg_iovlen)) \
			watched |= open_all(m->msg_iov, (int)m->msg_iovlen, writes, &o); \
	} \
	errno = error; \
	int result = call; \
	if (watched) { \
		error = errno; \
		check_close(&o); \
		errno = error; \
	} \
	return result

EXPORT int recvmmsg(int fd, struct mmsghdr *messages, unsigned n, int flags, struct timespec *limit)
{
	MESSAGES(recvmmsg, 1, next(fd, messages, n, flags, limit));
}

EXPORT int sendmmsg(int fd, struct mmsghdr *messages, unsigned n, int flags)
{
	MESSAGES(sendmmsg, 0, next(fd, messages, n, flags));
}

/* Copies between processes. The remote buffers belong to another process, or to this one. */
typedef ssize_t (*between)(pid_t, const struct iovec *, unsigned long, const struct iovec *, unsigned long, unsigned long);

static ssize_t transfer(between next, int reads, pid_t process, const struct iovec *here, unsigned long n,
			const struct iovec *there, unsigned long m, unsigned long flags)
{
	if (process != check_home || LIKELY(!check_core || !any(there, (int)m)))
		WATCHED(here, (int)n, reads, next(process, here, n, there, m, flags));
	struct opened o = {.probes = 1}; /* programs use this call to test whether memory is mapped */
	int error = errno;
	open_all(there, (int)m, !reads, &o);
	open_all(here, (int)n, reads, &o);
	errno = error;
	ssize_t result = next(process, here, n, there, m, flags);
	error = errno;
	check_close(&o);
	errno = error;
	return result;
}

EXPORT ssize_t process_vm_readv(pid_t process, const struct iovec *here, unsigned long n, const struct iovec *there,
				unsigned long m, unsigned long flags)
{
	NEXT(process_vm_readv);
	return transfer(next, 1, process, here, n, there, m, flags);
}

EXPORT ssize_t process_vm_writev(pid_t process, const struct iovec *here, unsigned long n, const struct iovec *there,
				 unsigned long m, unsigned long flags)
{
	NEXT(process_vm_writev);
	return transfer(next, 0, process, here, n, there, m, flags);
}

/*
 * Buffers of stdio: libc makes the system call itself, directly on the program's memory. The number of bytes
 * transferred before a failure is unknown then, so these calls are not retried.
 */
static size_t bytes(size_t size, size_t n)
{
	return size && n > SIZE_MAX / size ? SIZE_MAX : size * n;
}

#define STREAMED(name, pointer, writes) \
	NEXT(name); \
	if (LIKELY(!check_core || !any(ONE(pointer, bytes(size, n)), 1))) \
		return next(pointer, size, n, file); \
	struct self *me = check_self(); \
	struct opened o = {0}; \
	int error = errno; \
	open_all(ONE(pointer, bytes(size, n)), 1, writes, &o); \
	me->judged++; \
	errno = error; \
	size_t result = next(pointer, size, n, file); \
	me->judged--; \
	error = errno; \
	if (o.fence && o.stores && result < n && !feof_unlocked(file)) \
		check_ran_over(&o); \
	check_close(&o); \
	errno = error; \
	return result

EXPORT size_t fread(void *restrict buffer, size_t size, size_t n, FILE *restrict file)
{
	STREAMED(fread, buffer, 1);
}

EXPORT size_t fread_unlocked(void *restrict buffer, size_t size, size_t n, FILE *restrict file)
{
	STREAMED(fread_unlocked, buffer, 1);
}

EXPORT size_t fwrite(const void *restrict buffer, size_t size, size_t n, FILE *restrict file)
{
	STREAMED(fwrite, buffer, 0);
}

EXPORT size_t fwrite_unlocked(const void *restrict buffer, size_t size, size_t n, FILE *restrict file)
{
	STREAMED(fwrite_unlocked, buffer, 0);
}
