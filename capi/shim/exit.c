/*
 * The thread that enters the core at the end of the process.
 *
 * exit() and quick_exit() may be called where the calling thread cannot enter the core: in a handler of a signal that
 * interrupted a call, with frames of the Go runtime below it. So a thread of ours enters instead. It is started with
 * the core, because a handler may also have interrupted malloc, which is needed to start a thread.
 *
 * Ownership. `core` is set before the thread is started. The thread that ends the process takes
 * `state` from IDLE to TAKEN, fills `task`, and makes it ASKED; our thread makes it ENTERED and then DONE; the first makes it
 * IDLE again or, if it takes too long, GIVEN_UP for ever. A forked child has no such thread, and makes no request
 * (shim.c).
 */
#define _GNU_SOURCE
#include "shim.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { NOBODY, IDLE, TAKEN, ASKED, ENTERED, DONE, GIVEN_UP };

/*
 * Limits in milliseconds. In a signal handler the thread may hold a lock that the core needs, or a copy that others wait for, or
 * the only processor that Go code may have.
 */
enum { to_enter = 10000, to_be_done_in_handler = 1000 };

static _Atomic(uint32_t) state;
static ropeway_entry core;
static struct {
	ropeway_entry entry;
	uint32_t function;
	ropeway_thread thread;
	uint64_t *slots, result;
} task;

int ropeway_in_handler(void)
{
	stack_t now;
	return sigaltstack(NULL, &now) == 0 && now.ss_flags & SS_ONSTACK;
}

static int64_t milliseconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

static int become(uint32_t old, uint32_t next)
{
	if (!atomic_compare_exchange_strong(&state, &old, next))
		return 0;
	syscall(SYS_futex, &state, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
	return 1;
}

/* Returns 1 once the state has changed, 0 at time end; 0 means no limit. */
static int wait_while(uint32_t old, int64_t end)
{
	while (atomic_load(&state) == old) {
		struct timespec t = {0};
		if (end) {
			int64_t left = end - milliseconds();
			if (left <= 0)
				return 0;
			t = (struct timespec){left / 1000, left % 1000 * 1000000};
		}
		syscall(SYS_futex, &state, FUTEX_WAIT_PRIVATE, old, end ? &t : NULL, NULL, 0);
	}
	return 1;
}

static void *serve(void *unused)
{
	sigset_t all;
	(void)unused;
	sigfillset(&all);
	ropeway_lend_stack();
	core(ROPEWAY_EMPTY, NULL, NULL); /* makes it a thread of the Go runtime, which changes its signal mask */
	ropeway_restore_mask(&all);
	for (;;) {
		uint32_t phase = atomic_load(&state);
		if (phase != ASKED) {
			wait_while(phase, 0);
			continue;
		}
		core(ROPEWAY_EMPTY, NULL, NULL);
		if (become(ASKED, ENTERED)) {
			task.result = task.entry(task.function, task.thread, task.slots);
			become(ENTERED, DONE);
		}
	}
	return NULL;
}

void ropeway_prepare_end(ropeway_entry entry)
{
	pthread_t thread;
	pthread_attr_t detached;

	core = entry;
	if (pthread_attr_init(&detached))
		return;
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	atomic_store(&state, IDLE);
	if (pthread_create(&thread, &detached, serve, NULL))
		atomic_store(&state, NOBODY);
	pthread_attr_destroy(&detached);
}

/* Reserves the thread for a task of the caller; 0 if that fails. */
static int take(int64_t end)
{
	while (!become(IDLE, TAKEN)) {
		uint32_t phase = atomic_load(&state);
		if (phase == NOBODY || phase == GIVEN_UP)
			return 0;
		if (phase != IDLE && !wait_while(phase, end)) /* another thread is ending the process too */
			return 0;
	}
	return 1;
}

int ropeway_enter_at_end(ropeway_entry entry, uint32_t function, ropeway_thread thread, uint64_t *slots, uint64_t *result)
{
	int in_handler = ropeway_in_handler();
	int64_t begin = milliseconds(), end = in_handler ? begin + to_be_done_in_handler : 0;

	if (!take(begin + to_enter)) {
		if (atomic_load(&state) != NOBODY || in_handler)
			return 0;
		*result = entry(function, thread, slots); /* no thread could be started; this one can enter, if it is not in a signal handler */
		return 1;
	}
	task.entry = entry;
	task.function = function;
	task.thread = thread;
	task.slots = slots;
	become(TAKEN, ASKED);
	if (!wait_while(ASKED, end ? end : begin + to_enter) && become(ASKED, GIVEN_UP))
		return 0;
	if (!wait_while(ENTERED, end) && become(ENTERED, GIVEN_UP))
		return 0;
	*result = task.result;
	become(DONE, IDLE);
	return 1;
}

void ropeway_ask_at_end(uint32_t function)
{
	uint64_t result;
	ropeway_enter_at_end(core, function, NULL, NULL, &result);
}
