/*
 * The alternate stack that a thread without one gets at its first call. The Go runtime would provide one of 32 KiB,
 * on which the program's own handlers would run too (SA_ONSTACK): with the frames of wide vector registers, ten
 * signals that arrive at once, as after a long call into a GPU's driver, do not fit.
 *
 * The stack must exist as long as the thread runs, and no code of ours runs last in a thread. So stacks are kept in a
 * list, and one is reused when the system no longer has its thread. No locks: another thread may fork at any time.
 */
#define _GNU_SOURCE
#include "shim.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51 /* older headers have no name for it */
#endif

enum {
	at_once = 16,          /* handlers, one inside the other */
	own = 2 << 10,         /* stack of one handler, besides the kernel's frame */
	large_frame = 4 << 10, /* if the system does not report the size */
};

struct lent {
	struct lent *next;       /* immutable */
	char *stack;             /* immutable; below it is an inaccessible page */
	_Atomic(uint64_t) owner; /* low half: the system's number of the thread; high half: number of previous owners */
	atomic_bool left;        /* the thread has begun to end */
};

#define THREAD(owner) ((int)(uint32_t)(owner))
#define NEXT(owner) ((((owner) >> 32) + 1) << 32)

static _Atomic(struct lent *) lent;
static _Thread_local struct lent *mine __attribute__((tls_model("initial-exec")));

/* The size of the Go runtime's stack, plus room for handlers of the program. */
static size_t stack_size(size_t page)
{
	size_t frame = getauxval(AT_MINSIGSTKSZ);
	size_t size = (32 << 10) + at_once * ((frame ? frame : large_frame) + own);
	return (size + page - 1) & ~(page - 1);
}

/* Returns a stack whose thread has ended, or NULL. */
static struct lent *used_before(uint32_t thread)
{
	for (struct lent *l = atomic_load(&lent); l; l = l->next) {
		uint64_t owner = atomic_load(&l->owner);
		if (!atomic_load(&l->left) || !syscall(SYS_tgkill, getpid(), THREAD(owner), 0) || errno != ESRCH)
			continue;
		if (atomic_compare_exchange_strong(&l->owner, &owner, NEXT(owner) | thread)) {
			atomic_store(&l->left, 0);
			return l;
		}
	}
	return NULL;
}

static struct lent *fresh(uint32_t thread, size_t size, size_t page)
{
	struct lent *l = malloc(sizeof *l);
	if (!l)
		return NULL;
	char *room = mmap(NULL, page + size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (room == MAP_FAILED || mprotect(room + page, size, PROT_READ | PROT_WRITE)) {
		if (room != MAP_FAILED)
			munmap(room, page + size);
		free(l);
		return NULL;
	}
	l->stack = room + page;
	atomic_init(&l->owner, thread);
	atomic_init(&l->left, 0);
	l->next = atomic_load(&lent);
	while (!atomic_compare_exchange_weak(&lent, &l->next, l))
		;
	return l;
}

void ropeway_lend_stack(void)
{
	stack_t now;
	if (sigaltstack(NULL, &now) || !(now.ss_flags & SS_DISABLE))
		return;
	size_t page = (size_t)sysconf(_SC_PAGESIZE), size = stack_size(page);
	uint32_t thread = (uint32_t)syscall(SYS_gettid);
	if (!mine)
		mine = used_before(thread);
	if (!mine)
		mine = fresh(thread, size, page);
	if (mine)
		sigaltstack(&(stack_t){.ss_sp = mine->stack, .ss_size = size}, NULL);
}

void ropeway_stack_left(void)
{
	if (mine)
		atomic_store(&mine->left, 1);
}
