/*
 * Starts the process that runs kernels (capi/kernelhost).
 *
 * It is no child of the program: one that waits for all its children would wait for this one, too, and get a process that it does not
 * know. So a process in between starts it and ends at once; that one sends no signal when it ends, and is found by no wait of the
 * program's. Both use the memory of the calling thread, which sleeps meanwhile, as with vfork; all signals are blocked, so that no
 * handler of the program runs in them.
 */
#define _GNU_SOURCE
#include "shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process.h"

#define PROGRAM "ropeway-kernels"

enum { STACK = 64 << 10 };

extern char **environ;

/*
 * clone by its other name. ThreadSanitizer replaces clone and takes the child for a fork; it shares memory with the program, which
 * then may start no more threads.
 */
extern int __clone(int (*f)(void *), void *stack, int flags, void *data, ...);

struct start {
	const char *path;
	int socket;
	int error; /* of the last step that failed */
	char *stack;
};

static int become(void *data)
{
	struct start *s = data;
	char number[16];
	snprintf(number, sizeof number, "%d", s->socket);
	fcntl(s->socket, F_SETFD, 0);
	/* Device memory has to have the same addresses there: without chance they lie where a program like this has none. Not everybody may. */
	int now = personality(0xffffffff);
	if (now != -1)
		personality((unsigned long)now | ADDR_NO_RANDOMIZE);
	char *arguments[] = {(char *)PROGRAM, number, NULL};
	execve(s->path, arguments, environ);
	s->error = errno;
	return 127;
}

static int between(void *data)
{
	struct start *s = data;
	if (__clone(become, s->stack + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, s) < 0)
		s->error = errno;
	return 0;
}

/* The program beside this library: ../bin. */
static int beside(char path[PATH_MAX])
{
	Dl_info us;
	char real[PATH_MAX];
	if (!dladdr((void *)(uintptr_t)ropeway_kernel_spawn, &us) || !realpath(us.dli_fname, real))
		return ENOENT;
	for (int i = 0; i < 2; i++) {
		char *slash = strrchr(real, '/');
		if (!slash)
			return ENOENT;
		*slash = 0;
	}
	return snprintf(path, PATH_MAX, "%s/bin/" PROGRAM, real) < PATH_MAX ? 0 : ENAMETOOLONG;
}

EXPORT int ropeway_kernel_spawn(const char *path, int socket)
{
	char found[PATH_MAX];
	struct start s = {.path = path, .socket = socket};
	if (!*path) {
		s.path = found;
		if ((s.error = beside(found)))
			return s.error;
	}
	char *stacks = mmap(NULL, 2 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stacks == MAP_FAILED)
		return errno;
	s.stack = stacks + STACK;
	sigset_t all, was;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &was);
	int pid = __clone(between, stacks + STACK, CLONE_VM | CLONE_VFORK, &s);
	if (pid < 0)
		s.error = errno;
	else
		while (waitpid(pid, NULL, __WCLONE) < 0 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	munmap(stacks, 2 * STACK);
	return s.error;
}
