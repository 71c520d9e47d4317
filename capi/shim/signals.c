/*
 * Signals. Loading the Go runtime changes handlers and masks of the program; changes that it does not need are
 * undone. Those it does need are listed in docs/c.md.
 */
#define _GNU_SOURCE
#include "shim.h"

#include <errno.h>
#include <unistd.h>

static int is_function(const struct sigaction *action)
{
	return action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN;
}

/*
 * The Go runtime interrupts its own threads by SIGURG, with tgkill. It does not forward the signal, so the program's
 * handler is called from here for every SIGURG that does not come from tgkill.
 */
static struct sigaction program_urgent, core_urgent;

static void urgent(int signal, siginfo_t *info, void *context)
{
	core_urgent.sa_sigaction(signal, info, context);
	if (info->si_code == SI_TKILL && info->si_pid == getpid())
		return;
	if (program_urgent.sa_flags & SA_SIGINFO)
		program_urgent.sa_sigaction(signal, info, context);
	else
		program_urgent.sa_handler(signal);
}

/*
 * A crash of the program ends it with its own signal, also inside a callback: the Go runtime passes faults in C code
 * to the handler it found, but without one treats them as its own.
 */
static void crash(int signal, siginfo_t *info, void *context)
{
	struct sigaction plain = {.sa_handler = SIG_DFL};
	(void)context;
	sigaction(signal, &plain, NULL);
	if (info->si_code <= 0) /* sent: it does not recur by itself */
		raise(signal);
}

void ropeway_before_load(void)
{
	static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE};
	for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++) {
		struct sigaction was, ours = {.sa_sigaction = crash, .sa_flags = SA_SIGINFO | SA_ONSTACK};
		if (!sigaction(crashes[i], NULL, &was) && was.sa_handler == SIG_DFL)
			sigaction(crashes[i], &ours, NULL);
	}
	sigaction(SIGURG, NULL, &program_urgent);
}

void ropeway_after_load(void)
{
	if (is_function(&program_urgent) && !sigaction(SIGURG, NULL, &core_urgent) && core_urgent.sa_flags & SA_SIGINFO) {
		struct sigaction both = core_urgent;
		both.sa_sigaction = urgent;
		sigaction(SIGURG, &both, NULL);
	}
	ropeway_fix_handlers();
}

void ropeway_fix_handlers(void)
{
	int error = errno; /* sigaction fails for two signals */
	for (int signal = 1; signal < NSIG; signal++) {
		struct sigaction action;
		if (sigaction(signal, NULL, &action) || !is_function(&action) || action.sa_flags & SA_ONSTACK)
			continue;
		action.sa_flags |= SA_ONSTACK;
		sigaction(signal, &action, NULL);
	}
	errno = error;
}

void ropeway_restore_mask(sigset_t *was)
{
	static const int wanted[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGURG};
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
		sigdelset(was, wanted[i]);
	pthread_sigmask(SIG_SETMASK, was, NULL);
}
