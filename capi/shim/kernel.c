/*
 * Kernels on this CPU: ropeway/kernel.h, and how the core calls them.
 *
 * A fault in a kernel does not end the process: the handler finds that its thread is in a kernel, and jumps back to
 * the caller of the kernel. A thread in an endless kernel is sent a signal of ours and does the same. Locks that the
 * kernel held stay locked.
 *
 * Ownership. A struct core is on the stack of its thread; others read it with run->lock held, while it is in the
 * list. `old` is written once, with `installing` held, before the first kernel runs.
 */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE /* longjmp leaves an alternate stack on purpose */
#include "shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "access.h"
#include "kernel.h"
#include "ropeway/kernel.h"

#define FAST __attribute__((tls_model("initial-exec")))

enum { MOST_SLOTS = 128 };

/* A thread that runs blocks. */
typedef struct core {
	ropeway_run *run;
	uint32_t block, sub;
	uint32_t thread[3], cell[3];
	volatile sig_atomic_t inside; /* the running code is the kernel's, so a fault is the kernel's */
	pid_t id;
	jmp_buf out;
	struct core *next;
} core;

static _Thread_local core *self FAST;
static _Thread_local pid_t my_id FAST; /* 0: the thread has run no kernel yet */

/*
 * Signals.
 */
static const int caught[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
static struct sigaction old[NSIG];
static pthread_mutex_t installing = PTHREAD_MUTEX_INITIALIZER;
static int installed; /* guarded by installing */

static int leave_signal(void)
{
	return SIGRTMAX - 5;
}

/* Records why the run ends early, unless a reason was recorded before. */
static void fail(core *c, uint32_t why, uint64_t address, uint64_t code)
{
	uint32_t none = 0;
	if (atomic_compare_exchange_strong(&c->run->failed, &none, why)) {
		c->run->failed_block = c->block;
		c->run->failed_address = address;
		c->run->failed_code = code;
	}
}

static uint64_t counter(const ucontext_t *u)
{
#if defined(__x86_64__)
	return (uint64_t)u->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	return u->uc_mcontext.pc;
#else
	(void)u;
	return 0;
#endif
}

static void pass_on(int signal, siginfo_t *info, void *context)
{
	const struct sigaction *was = &old[signal];
	if (was->sa_flags & SA_SIGINFO) {
		was->sa_sigaction(signal, info, context);
	} else if (was->sa_handler == SIG_DFL) {
		if (signal == leave_signal())
			return;
		sigaction(signal, was, NULL);
		if (info->si_code <= 0) /* sent: it does not recur by itself */
			raise(signal);
	} else if (was->sa_handler != SIG_IGN) {
		was->sa_handler(signal);
	}
}

/* Leaves the kernel from within a signal handler. */
static _Noreturn void leave(core *c, const ucontext_t *u)
{
	c->inside = 0;
	pthread_sigmask(SIG_SETMASK, &u->uc_sigmask, NULL);
	_longjmp(c->out, 1);
}

int ropeway_kernel_fault(uintptr_t address, int write, const void *context)
{
	core *c = self;
	if (!c || !c->inside)
		return ropeway_watch_opens(address, write) ? ROPEWAY_OPENED : c ? ROPEWAY_WITHIN : 0;
	c->inside = 0; /* a thread that leaves here would stay a user of the list */
	int opened = ropeway_watch_opens(address, write);
	c->inside = 1;
	if (opened && context && atomic_load(&c->run->failed))
		leave(c, context);
	return opened ? ROPEWAY_OPENED : ROPEWAY_INSIDE;
}

static void handle(int signal, siginfo_t *info, void *context)
{
	core *c = self;
	const ucontext_t *u = context;
	if (signal == SIGSEGV && info->si_code == SEGV_ACCERR &&
	    ropeway_kernel_fault((uintptr_t)info->si_addr, ropeway_is_write(u), u) == ROPEWAY_OPENED)
		return;
	int met = signal == leave_signal() ? c && atomic_load(&c->run->failed) : info->si_code > 0 || signal == SIGABRT;
	if (!c || !c->inside || !met) {
		pass_on(signal, info, context);
		return;
	}
	c->inside = 0;
	if (signal != leave_signal())
		fail(c, (uint32_t)signal, signal == SIGSEGV || signal == SIGBUS ? (uint64_t)(uintptr_t)info->si_addr : 0, counter(u));
	leave(c, u);
}

static int install(int signal)
{
	if (sigaction(signal, NULL, &old[signal]))
		return errno;
	struct sigaction ours = old[signal];
	ours.sa_sigaction = handle;
	ours.sa_flags = (ours.sa_flags & SA_RESTART) | SA_SIGINFO | SA_ONSTACK;
	return sigaction(signal, &ours, NULL) ? errno : 0;
}

EXPORT int ropeway_kernel_prepare(void)
{
	int error = 0;
	pthread_mutex_lock(&installing);
	if (!installed) {
		/* The program may have loaded this library with RTLD_LOCAL. */
		Dl_info us;
		if (dladdr((void *)(uintptr_t)ropeway_kernel_prepare, &us))
			dlopen(us.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
		for (size_t i = 0; i < sizeof caught / sizeof *caught && !error; i++)
			error = install(caught[i]);
		if (!error)
			error = install(leave_signal());
		installed = !error;
	}
	pthread_mutex_unlock(&installing);
	return error;
}

/*
 * Calls. Passing more arguments than a function takes is harmless, so there are only a few sizes.
 */
#define SLOTS4(i) a[i], a[i + 1], a[i + 2], a[i + 3]
#define SLOTS16(i) SLOTS4(i), SLOTS4(i + 4), SLOTS4(i + 8), SLOTS4(i + 12)
#define SLOTS64(i) SLOTS16(i), SLOTS16(i + 16), SLOTS16(i + 32), SLOTS16(i + 48)

static void invoke(uint64_t code, const uint64_t *a, size_t slots)
{
	void (*f)() = (void (*)())(uintptr_t)code;
	if (slots <= 6)
		f(SLOTS4(0), a[4], a[5]);
	else if (slots <= 16)
		f(SLOTS16(0));
	else if (slots <= 64)
		f(SLOTS64(0));
	else
		f(SLOTS64(0), SLOTS64(64));
}

static void take(ropeway_run *run)
{
	while (atomic_exchange_explicit(&run->lock, 1, memory_order_acquire))
		sched_yield();
}

static void release(ropeway_run *run)
{
	atomic_store_explicit(&run->lock, 0, memory_order_release);
}

static void join_run(ropeway_run *run, core *c)
{
	if (!my_id) {
		sigset_t leave;
		sigemptyset(&leave);
		sigaddset(&leave, leave_signal());
		pthread_sigmask(SIG_UNBLOCK, &leave, NULL);
		my_id = (pid_t)syscall(SYS_gettid);
	}
	c->id = my_id;
	take(run);
	c->next = run->inside;
	run->inside = c;
	release(run);
}

static void leave_run(ropeway_run *run, core *c)
{
	take(run);
	for (core **at = (core **)&run->inside; *at; at = &(*at)->next)
		if (*at == c) {
			*at = c->next;
			break;
		}
	release(run);
}

/* Selects the i-th call. 0 if there is no such call. */
static int choose(core *c, uint32_t i, uint64_t *code)
{
	const ropeway_run *run = c->run;
	uint32_t of = run->per[0] + run->per[1];
	if ((uint64_t)i >= (uint64_t)run->blocks * of)
		return 0;
	uint32_t number = i / of, rest = i % of;
	int half = rest >= run->per[0];
	*code = run->code[half];
	c->sub = half ? rest - run->per[0] : rest;
	c->block = run->first + number;
	c->cell[0] = number % run->grid[0];
	c->cell[1] = number / run->grid[0] % run->grid[1];
	c->cell[2] = number / run->grid[0] / run->grid[1];
	return 1;
}

/* Leaves the kernel from within a function of ours. */
static _Noreturn void quit(core *c)
{
	c->inside = 0;
	_longjmp(c->out, 1);
}

static void call_whole(core *c, uint64_t code)
{
	uint32_t result = ((uint32_t(*)(const void *))(uintptr_t)code)((const void *)(uintptr_t)c->run->args);
	if (!result)
		return;
	fail(c, ROPEWAY_REFUSED, result, code);
	quit(c);
}

/* Runs the threads of a block, one after another. */
static void call_block(core *c, uint64_t code, const uint64_t *a, size_t slots)
{
	const uint32_t *n = c->run->threads;
	if (c->run->whole) {
		call_whole(c, code);
		return;
	}
	for (c->thread[2] = 0; c->thread[2] < n[2]; c->thread[2]++)
		for (c->thread[1] = 0; c->thread[1] < n[1]; c->thread[1]++)
			for (c->thread[0] = 0; c->thread[0] < n[0]; c->thread[0]++)
				invoke(code, a, slots);
}

/* Makes all threads leave a run that has failed. */
static void kick(ropeway_run *run)
{
	syscall(SYS_futex, &run->round, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
	take(run);
	for (const core *c = run->inside; c; c = c->next)
		syscall(SYS_tgkill, getpid(), c->id, leave_signal());
	release(run);
}

/* Called when a kernel ends its thread (pthread_exit): the thread belongs to the runtime, and continues. */
static void thread_ends(void *data)
{
	core *c = data;
	fail(c, ROPEWAY_ENDED, 0, 0);
	quit(c);
}

EXPORT int ropeway_kernel_run(ropeway_run *run, ropeway_share *share)
{
	core c;
	uint64_t a[MOST_SLOTS], code;
	c.run = run;
	c.inside = 0;
	c.block = 0;
	ropeway_take_over();
	join_run(run, &c);
	core *before = self; /* the kernel is called by another kernel: a fault belongs to the inner one */
	self = &c;
	pthread_cleanup_push(thread_ends, &c);
	if (!_setjmp(c.out)) {
		size_t bytes = run->size < sizeof a ? run->size : sizeof a;
		size_t slots = (bytes + 7) / 8;
		memset(a, 0, slots <= 6 ? 6 * 8 : slots <= 16 ? 16 * 8 : sizeof a);
		c.inside = 1;
		memcpy(a, (const void *)(uintptr_t)run->args, bytes);
		while (!atomic_load_explicit(&run->failed, memory_order_relaxed)) {
			uint32_t i = atomic_fetch_add_explicit(&run->next, 1, memory_order_relaxed);
			if (!choose(&c, i, &code))
				break;
			if (share) {
				if (!share->calls++)
					share->first = c.block;
				share->last = c.block;
			}
			call_block(&c, code, a, slots);
		}
	}
	c.inside = 0;
	pthread_cleanup_pop(0);
	self = before;
	leave_run(run, &c);
	ropeway_publish();
	if (atomic_load_explicit(&run->failed, memory_order_relaxed))
		kick(run);
	return 0;
}

EXPORT int ropeway_kernel_stop(ropeway_run *run)
{
	uint32_t none = 0;
	atomic_compare_exchange_strong(&run->failed, &none, ROPEWAY_STOPPED);
	kick(run);
	return 0;
}

EXPORT int ropeway_kernel_call(const ropeway_function *f, const ropeway_block *block, ropeway_declared *touches, uint32_t most,
			       uint32_t *touched)
{
	ropeway_run run = {.args = (uintptr_t)block->args, .size = block->size, .blocks = block->num, .per = {1, 0},
			   .grid = {block->num, 1, 1}, .threads = {1, 1, 1}, .touches = (uintptr_t)touches, .most = most};
	core c = {.run = &run, .block = block->idx, .sub = block->sub, .cell = {block->idx, 0, 0}};
	core *before = self;
	volatile int result = 1; /* a barrier jumps past the assignment */
	self = &c;
	ropeway_take_over();
	if (!_setjmp(c.out)) /* a barrier leaves it */
		result = f->call(block, f->data);
	ropeway_publish();
	self = before;
	*touched = run.touched;
	return result;
}

/*
 * Functions that kernels call.
 */
EXPORT uint32_t ropeway_block_idx(void)
{
	return self ? self->block : 0;
}

EXPORT uint32_t ropeway_block_num(void)
{
	return self ? self->run->blocks : 0;
}

EXPORT uint32_t ropeway_sub_block_idx(void)
{
	return self ? self->sub : 0;
}

EXPORT const void *ropeway_args(size_t *size)
{
	if (size)
		*size = self ? self->run->size : 0;
	return self ? (const void *)(uintptr_t)self->run->args : NULL;
}

#define BY_DIMENSION(name, field)                                                                                                  \
	EXPORT uint32_t name(int dimension)                                                                                        \
	{                                                                                                                          \
		return self && dimension >= 0 && dimension < 3 ? self->field[dimension] : 0;                                       \
	}

BY_DIMENSION(ropeway_thread_idx, thread)
BY_DIMENSION(ropeway_thread_num, run->threads)
BY_DIMENSION(ropeway_grid_idx, cell)
BY_DIMENSION(ropeway_grid_num, run->grid)

EXPORT void ropeway_block_barrier(void)
{
	core *c = self;
	if (!c)
		return;
	ropeway_run *run = c->run;
	uint32_t all = run->blocks * (run->per[0] + run->per[1]);
	if (all == 1) /* no other block to wait for, and such a launch has no threads of its own */
		return;
	if (!run->together) {
		fail(c, ROPEWAY_BARRIER, 0, (uintptr_t)__builtin_return_address(0));
		quit(c);
	}
	uint32_t round = atomic_load(&run->round);
	if (atomic_fetch_add(&run->arrived, 1) + 1 == all) {
		atomic_store(&run->arrived, 0);
		atomic_fetch_add(&run->round, 1);
		syscall(SYS_futex, &run->round, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
		return;
	}
	for (int spins = 0; atomic_load(&run->round) == round; spins++) {
		if (atomic_load(&run->failed))
			quit(c);
		if (spins >= 1000) {
			const struct timespec look = {.tv_nsec = 10000000}; /* to notice a failure that was not signalled */
			syscall(SYS_futex, &run->round, FUTEX_WAIT_PRIVATE, round, &look, NULL, 0);
		}
	}
}

EXPORT void ropeway_touches(const void *address, size_t bytes, int writes)
{
	core *c = self;
	if (!c || !c->run->touches || !bytes)
		return;
	ropeway_run *run = c->run;
	ropeway_declared *list = (ropeway_declared *)(uintptr_t)run->touches;
	int inside = c->inside;
	c->inside = 0; /* a thread that leaves here would leave the lock behind */
	take(run);
	uint32_t i = 0, n = run->touched < run->most ? run->touched : run->most;
	while (i < n && (list[i].address != (uintptr_t)address || list[i].bytes != bytes || list[i].writes != (uint64_t)!!writes))
		i++;
	if (i == run->most)
		run->touched = run->most + 1;
	else if (i == n) {
		list[i] = (ropeway_declared){(uintptr_t)address, bytes, !!writes};
		run->touched = n + 1;
	}
	release(run);
	c->inside = inside;
	if (inside && atomic_load(&run->failed))
		quit(c);
}

EXPORT int ropeway_print(const char *format, ...)
{
	char text[4096];
	va_list list;
	va_start(list, format);
	int n = vsnprintf(text, sizeof text, format, list);
	va_end(list);
	if (n < 0)
		return n;
	core *c = self;
	int inside = c ? c->inside : 0;
	if (c)
		c->inside = 0; /* a thread that leaves here would leave the lock of stdout behind */
	fwrite(text, 1, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1, stdout);
	if (c) {
		c->inside = inside;
		if (inside && atomic_load(&c->run->failed))
			quit(c);
	}
	return n;
}
