/*
 * The program's own handlers and masks. Faults on closed memory must reach the checker first, so it has the handlers of
 * a few signals; handlers set by the program, its libraries and the runtime of the core are kept here and called in
 * turn. None of these signals is ever blocked: the kernel ends a process that faults with the signal blocked.
 *
 * Programs read back the handlers they set. Only functions of libc are replaced: direct system calls bypass this
// file.
 *
 * `lock` guards the table. It is held for a few instructions that cannot fault, with all signals blocked, so that handlers can
 * take it.
 */
#define _GNU_SOURCE
#include "checker.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
	int signal;
	handler function;
} taken[] = {
	{SIGSEGV, check_on_fault},
	{SIGTRAP, check_on_trap},
	{SIGSYS, check_on_system_call},
};

enum { TAKEN = sizeof taken / sizeof *taken, LENT = 64 << 10 };

static struct sigaction program[TAKEN]; /* the program's view of its handlers; guarded by lock */
static atomic_flag lock = ATOMIC_FLAG_INIT;
static atomic_bool attached; /* the handlers are ours */

/* -1 for a signal that is not ours. */
static int index_of(int signal)
{
	for (int i = 0; i < TAKEN; i++)
		if (taken[i].signal == signal)
			return i;
	return -1;
}

static uint64_t hold(void)
{
	uint64_t all = ~(uint64_t)0, mask = 0;
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &mask, 8);
	while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire))
		;
	return mask;
}

static void release(uint64_t mask)
{
	atomic_flag_clear_explicit(&lock, memory_order_release);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, 8);
}

typedef int (*action_function)(int, const struct sigaction *, struct sigaction *);
typedef int (*mask_function)(int, const sigset_t *, sigset_t *);
typedef int (*stack_function)(const stack_t *, stack_t *);

/* libc's functions, looked up at the first use; preparing is one. */
static _Atomic action_function libc_action;
static _Atomic mask_function libc_mask;
static _Atomic stack_function libc_stack;

void check_signals_prepare(void)
{
	libc_action = (action_function)(uintptr_t)dlsym(RTLD_NEXT, "sigaction");
	libc_mask = (mask_function)(uintptr_t)dlsym(RTLD_NEXT, "pthread_sigmask");
	libc_stack = (stack_function)(uintptr_t)dlsym(RTLD_NEXT, "sigaltstack");
}

void check_signals_in_child(void)
{
	atomic_flag_clear(&lock);
}

static int real_sigaction(int signal, const struct sigaction *action, struct sigaction *old)
{
	if (!libc_action)
		check_signals_prepare();
	return libc_action(signal, action, old);
}


void check_take_signals(void)
{
	check_libc_text = check_text_of((void *)(uintptr_t)libc_action);
	for (int i = 0; i < TAKEN; i++) {
		struct sigaction ours = {.sa_sigaction = taken[i].function, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
		real_sigaction(taken[i].signal, NULL, &program[i]);
		real_sigaction(taken[i].signal, &ours, NULL);
	}
	atomic_store(&attached, 1);
}

EXPORT int sigaction(int signal, const struct sigaction *action, struct sigaction *old)
{
	int i = atomic_load(&attached) ? index_of(signal) : -1;
	struct sigaction in, out;
	if (action)
		in = *action;
	if (i < 0) { /* handlers of other signals may access closed memory too, even if they interrupt the core */
		for (int j = 0; action && j < TAKEN; j++)
			sigdelset(&in.sa_mask, taken[j].signal);
		if (action && atomic_load(&attached))
			in.sa_flags |= SA_ONSTACK;
		return real_sigaction(signal, action ? &in : NULL, old);
	}
	uint64_t mask = hold();
	out = program[i];
	if (action)
		program[i] = in;
	release(mask);
	if (old)
		*old = out;
	return 0;
}

/* The default action, as without the checker: the instruction runs again and ends the process. */
static void by_default(int signal, siginfo_t *info)
{
	struct sigaction plain = {.sa_handler = SIG_DFL};
	real_sigaction(signal, &plain, NULL);
	if (info->si_code <= 0 || signal != SIGSEGV) /* sent, or it does not recur */
		syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), signal);
}

void check_to_program(int signal, siginfo_t *info, void *context)
{
	int i = index_of(signal);
	uint64_t mask = hold();
	struct sigaction a = program[i];
	if (a.sa_flags & SA_RESETHAND)
		program[i].sa_handler = SIG_DFL, program[i].sa_flags = 0;
	release(mask);
	if (a.sa_handler == SIG_IGN && info->si_code <= 0)
		return;
	if (a.sa_handler == SIG_DFL || a.sa_handler == SIG_IGN) {
		by_default(signal, info);
		return;
	}
	for (int j = 0; j < TAKEN; j++)
		sigdelset(&a.sa_mask, taken[j].signal);
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &a.sa_mask, NULL, 8); /* the kernel restores the mask when the handler returns */
	if (a.sa_flags & SA_SIGINFO)
		a.sa_sigaction(signal, info, context);
	else
		a.sa_handler(signal);
}

/* The ways to set a handler that do not go through sigaction. */

static sighandler_t set(int signal, sighandler_t function, int flags)
{
	struct sigaction action = {.sa_handler = function, .sa_flags = flags}, old;
	if (sigaction(signal, &action, &old))
		return SIG_ERR;
	return old.sa_handler;
}

/* libc's functions, for signals that are not ours. */
static sighandler_t libc(const char *name, int signal, sighandler_t function)
{
	sighandler_t (*next)(int, sighandler_t) = (sighandler_t(*)(int, sighandler_t))(uintptr_t)dlsym(RTLD_NEXT, name);
	sighandler_t old = next(signal, function);
	struct sigaction now;
	if (old != SIG_ERR && atomic_load(&attached) && real_sigaction(signal, NULL, &now) == 0)
		sigaction(signal, &now, NULL); /* with the flags it needs here */
	return old;
}

#define SETTER(name, flags) \
	EXPORT sighandler_t name(int signal, sighandler_t function); \
	sighandler_t name(int signal, sighandler_t function) \
	{ \
		if (index_of(signal) < 0) \
			return libc(#name, signal, function); \
		return set(signal, function, flags); \
	}

SETTER(signal, SA_RESTART)
SETTER(bsd_signal, SA_RESTART)
SETTER(ssignal, SA_RESTART)
SETTER(sysv_signal, SA_RESETHAND | SA_NODEFER)
SETTER(__sysv_signal, SA_RESETHAND | SA_NODEFER)
SETTER(sigset, 0)

/* Masks. The program's request is carried out except for our signals. */

static const sigset_t *without_ours(const sigset_t *set, sigset_t *room, int how)
{
	if (!set || how == SIG_UNBLOCK)
		return set;
	*room = *set;
	for (int i = 0; i < TAKEN; i++)
		sigdelset(room, taken[i].signal);
	return room;
}

EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	sigset_t room;
	if (!libc_mask)
		check_signals_prepare();
	return libc_mask(how, without_ours(set, &room, how), old);
}

EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	int error = pthread_sigmask(how, set, old);
	if (error)
		errno = error;
	return error ? -1 : 0;
}

/*
 * A thread that has been in the core needs an alternate stack for as long as it calls: the Go runtime ends the process when
 * one of its signals finds none. If a program removes its own, the thread gets one of ours.
 */
EXPORT int sigaltstack(const stack_t *stack, stack_t *old)
{
	if (!libc_stack)
		check_signals_prepare();
	if (!stack || !(stack->ss_flags & SS_DISABLE) || !check_core)
		return libc_stack(stack, old);
	struct self *me = check_self();
	if (!me->lent) {
		void *room = mmap(NULL, LENT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (room == MAP_FAILED)
			return libc_stack(stack, old);
		me->lent = room;
	}
	stack_t ours = {.ss_sp = me->lent, .ss_size = LENT};
	return libc_stack(&ours, old);
}
