/*
 * Whether the process has the resources for the core. The Go runtime ends the process if it cannot get addresses,
 * memory, a thread or a descriptor that it needs, so all of these are tried before it is loaded. They are released
 * again, and a process that gets the resources later can load the core then.
 */
#define _GNU_SOURCE
#include "shim.h"

#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define QUOTE(number) #number
#define TEXT(number) QUOTE(number)
#define DESCRIPTORS 10 /* of the loader, the Go runtime, device and host memory, and some spare ones */

enum {
	beside_processors = 6, /* threads of the Go runtime and the shim, besides one for each processor */
	most_processors = 16,
	small_stack = 64 << 10,
};

static const size_t addresses = (size_t)1 << 30, heap = (size_t)128 << 20;

static int can_map(size_t size, int protection)
{
	void *room = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (room == MAP_FAILED)
		return 0;
	munmap(room, size);
	return 1;
}

static int limited(__rlimit_resource_t what)
{
	struct rlimit limit;
	return !getrlimit(what, &limit) && limit.rlim_cur != RLIM_INFINITY;
}

static int processors(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);
	return n < 1 ? 1 : n > most_processors ? most_processors : (int)n;
}

/* A heap, and the stacks of the threads: the limit counts writable memory, used or not. */
static size_t memory(void)
{
	pthread_attr_t usual;
	size_t stack = 8 << 20;
	if (!pthread_getattr_default_np(&usual)) {
		pthread_attr_getstacksize(&usual, &stack);
		pthread_attr_destroy(&usual);
	}
	return heap + stack * (size_t)(beside_processors + processors());
}

static int has_descriptors(void)
{
	int fd[DESCRIPTORS], n = 0;
	while (n < DESCRIPTORS && (fd[n] = eventfd(0, EFD_CLOEXEC)) >= 0)
		n++;
	int enough = n == DESCRIPTORS;
	while (n > 0)
		close(fd[--n]);
	return enough;
}

static void *pass(void *gate)
{
	pthread_mutex_lock(gate);
	pthread_mutex_unlock(gate);
	return NULL;
}

static int has_threads(void)
{
	static atomic_flag trying = ATOMIC_FLAG_INIT;
	pthread_t thread[beside_processors + most_processors];
	pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
	pthread_attr_t small;
	int n = 0, wanted = beside_processors + processors(), error = 0;

	if (atomic_flag_test_and_set(&trying)) /* another thread is trying: the two would compete for the same resources */
		return 1;
	if (!pthread_attr_init(&small)) {
		pthread_attr_setstacksize(&small, small_stack);
		pthread_mutex_lock(&gate);
		while (n < wanted && !(error = pthread_create(&thread[n], &small, pass, &gate)))
			n++;
		pthread_mutex_unlock(&gate);
		while (n > 0)
			pthread_join(thread[--n], NULL);
		pthread_attr_destroy(&small);
	}
	atomic_flag_clear(&trying);
	return error != EAGAIN;
}

const char *ropeway_lacks_room(void)
{
	if (limited(RLIMIT_AS) && !can_map(addresses, PROT_NONE))
		return "too little address space is left for the core: raise the limit (ulimit -v)";
	if (limited(RLIMIT_DATA) && !can_map(memory(), PROT_READ | PROT_WRITE))
		return "too little memory is left for the core: raise the limit (ulimit -d)";
	if (!has_descriptors())
		return "too few file descriptors are left for the core, which needs " TEXT(DESCRIPTORS)
		       ": close some, or raise the limit (ulimit -n)";
	if (!has_threads())
		return "too few threads can be started for the core: raise the limit (ulimit -u, or pids.max of the control group)";
	return NULL;
}
