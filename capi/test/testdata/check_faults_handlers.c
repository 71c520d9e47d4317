/* Faults that are the program's own reach its own handlers, or end it; and what forked children may do. */
#include "check_faults.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static sigjmp_buf back;
static volatile uintptr_t met;
static volatile int caught;

__attribute__((noinline)) static unsigned char read_byte(volatile unsigned char *p)
{
	return *p;
}

static void jumps(int signal, siginfo_t *info, void *context)
{
	(void)context;
	CHECK(signal == SIGSEGV);
	met = (uintptr_t)info->si_addr;
	caught++;
	siglongjmp(back, 1);
}

static void expect_fault(unsigned char *address)
{
	int before = caught;
	if (sigsetjmp(back, 1) == 0) {
		read_byte(address);
		CHECK(!"a fault");
	}
	CHECK(caught == before + 1 && met == (uintptr_t)address);
}

/* Set before or after the first call; elsewhere, or in the window where nothing is allocated; again and again. */
static void own_handler(int before)
{
	struct sigaction a = {.sa_sigaction = jumps, .sa_flags = SA_SIGINFO}, old;
	unsigned char *p = NULL;
	if (before)
		CHECK(sigaction(SIGSEGV, &a, NULL) == 0);
	p = pinned(1);
	if (!before)
		CHECK(sigaction(SIGSEGV, &a, NULL) == 0);
	destination(p, 64);
	for (int i = 0; i < 3; i++) {
		expect_fault((unsigned char *)16);
		expect_fault(p + 8 * PAGE);
		CHECK(read_byte(p + 100) == pattern(100) && seen()->findings == 0); /* ours still are ours */
	}
	CHECK(sigaction(SIGSEGV, NULL, &old) == 0 && old.sa_sigaction == jumps && old.sa_flags & SA_SIGINFO);
}

static void handler_after(void)
{
	own_handler(0);
}

static void handler_before(void)
{
	own_handler(1);
}

/* A handler that repairs what was wrong and returns. */
static unsigned char *repaired;

static void repairs(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)info;
	(void)context;
	caught++;
	CHECK(read_byte(repaired + 100) == pattern(100)); /* closed memory, in the handler */
	OK(aclrtMallocHost((void **)&met, PAGE));          /* the page that was missing */
}

static void handler_returns(void)
{
	struct sigaction a = {.sa_sigaction = repairs, .sa_flags = SA_SIGINFO | SA_NODEFER};
	repaired = pinned(1);
	CHECK(sigaction(SIGSEGV, &a, NULL) == 0);
	destination(repaired, 64);
	read_byte(repaired + PAGE);
	CHECK(caught == 1 && met == (uintptr_t)repaired + PAGE);
}

/* As crash reporters do: they keep what was there, put it back when they are called, and let the fault happen again. */
static struct sigaction previous;

static void reporter(int signal)
{
	(void)signal;
	static const char text[] = "reported\n";
	if (write(STDOUT_FILENO, text, sizeof text - 1) < 0)
		_exit(3);
	sigaction(SIGSEGV, &previous, NULL);
}

static void crash_reported(void)
{
	unsigned char *p = pinned(1);
	struct sigaction a = {.sa_handler = reporter, .sa_flags = SA_NODEFER | SA_ONSTACK};
	CHECK(sigaction(SIGSEGV, &a, &previous) == 0);
	destination(p, 64);
	CHECK(read_byte(p + 100) == pattern(100));
	read_byte((unsigned char *)16);
}

static void crash_once(void)
{
	struct sigaction a = {.sa_handler = reporter, .sa_flags = (int)SA_RESETHAND};
	pinned(1);
	previous.sa_handler = SIG_DFL;
	CHECK(sigaction(SIGSEGV, &a, NULL) == 0);
	read_byte((unsigned char *)16);
}

static void crash(void)
{
	pinned(1);
	read_byte((unsigned char *)16);
}

static void crash_in_window(void)
{
	read_byte(pinned(1) + 8 * PAGE);
}

static void crash_ignored(void)
{
	pinned(1);
	signal(SIGSEGV, SIG_IGN);
	read_byte((unsigned char *)16);
}

static void crash_sent(void)
{
	pinned(1);
	raise(SIGSEGV);
}

static void plain_handler(int signal)
{
	caught = signal;
}

/* The other signals, and the other ways to set a handler. */
static void other_ways(void)
{
	pinned(1);
	CHECK(signal(SIGTRAP, plain_handler) == SIG_DFL);
	raise(SIGTRAP);
	CHECK(caught == SIGTRAP);
	CHECK(signal(SIGTRAP, SIG_IGN) == plain_handler && raise(SIGTRAP) == 0);
	CHECK(signal(SIGSYS, plain_handler) == SIG_DFL);
	raise(SIGSYS);
	CHECK(caught == SIGSYS);
	CHECK(signal(SIGUSR1, plain_handler) == SIG_DFL);
	raise(SIGUSR1);
	CHECK(caught == SIGUSR1);
	signal(SIGSEGV, plain_handler);
	raise(SIGSEGV);
	CHECK(caught == SIGSEGV);
	sigset_t all, now;
	sigfillset(&all);
	CHECK(sigprocmask(SIG_SETMASK, &all, NULL) == 0 && sigprocmask(SIG_SETMASK, NULL, &now) == 0);
	CHECK(sigismember(&now, SIGUSR1) && !sigismember(&now, SIGSEGV));
}

/* A child has the memory but no core. */
static int in_child(void (*function)(unsigned char *), unsigned char *p)
{
	int status;
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		function(p);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	return status;
}

static void child_uses(unsigned char *p)
{
	int fd[2];
	char got[8];
	CHECK(read_byte(p + 10) == pattern(10) && read_byte(p + 100) == pattern(100));
	CHECK(pipe(fd) == 0);
	CHECK(syscall(SYS_write, fd[1], p + PAGE + 10, 8) == 8 && read(fd[0], got, 8) == 8);
	for (size_t i = 0; i < 8; i++)
		CHECK((unsigned char)got[i] == pattern(PAGE + 10 + i));
}

static void child_crashes(unsigned char *p)
{
	(void)p;
	read_byte((unsigned char *)16);
}

static void child_calls(unsigned char *p)
{
	CHECK(aclrtMemcpyAsync(p, 1, p, 1, ACL_MEMCPY_DEVICE_TO_HOST, NULL) != ACL_SUCCESS);
	CHECK(aclrtSynchronizeStream(NULL) != ACL_SUCCESS);
}

static void forks(void)
{
	unsigned char *p = pinned(2);
	destination(p, PAGE + 64);
	CHECK(in_child(child_uses, p) == 0);
	CHECK(seen()->touches == 0);
	int status = in_child(child_crashes, p);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	CHECK(read_byte(p + PAGE + 100) == pattern(PAGE + 100) && seen()->steps == 1); /* the parent goes on */
}

static void fork_calls(void)
{
	unsigned char *p = pinned(1);
	CHECK(in_child(child_calls, p) == 0);
}

int main(int argc, char **argv)
{
	static const struct mode modes[] = {
		MODE(handler_after), MODE(handler_before), MODE(handler_returns), MODE(crash_reported), MODE(crash_once), MODE(crash),
		MODE(crash_in_window), MODE(crash_ignored), MODE(crash_sent), MODE(other_ways), MODE(forks), MODE(fork_calls),
	};
	return run_mode(modes, sizeof modes / sizeof *modes, argc, argv);
}
