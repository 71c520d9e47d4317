/* Signals: what the library takes for itself, and that the program's own handlers go on working. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include "robust.h"

static const int taken[] = {SIGBUS, SIGFPE, SIGSEGV, SIGPIPE, SIGURG};

/* Signals that a thread has no longer blocked after its first call. */
static const int unblocked[] = {SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGURG};

#define IN(sig, list) in(sig, list, sizeof(list) / sizeof(list)[0])

static int in(int sig, const int *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (list[i] == sig)
			return 1;
	return 0;
}

static void handle(int sig, void (*handler)(int), int flags)
{
	struct sigaction a = {.sa_handler = handler, .sa_flags = flags};

	CHECK(!sigaction(sig, &a, NULL));
}

static void nothing(int sig)
{
	(void)sig;
}

/* Compares what is set for every signal, and the mask, before the first call and after it. */
static void compare_dispositions(int extra_flags)
{
	struct sigaction before[65], after[65];
	sigset_t mask_before, mask_after;

	for (int sig = 1; sig < 65; sig++)
		sigaction(sig, NULL, &before[sig]);
	CHECK(!sigprocmask(SIG_BLOCK, NULL, &mask_before));
	copy_both_ways(1);
	CHECK(!sigprocmask(SIG_BLOCK, NULL, &mask_after));
	for (int sig = 1; sig < 65; sig++) {
		if (sigaction(sig, NULL, &after[sig]))
			continue; /* the C library keeps two for itself */
		if (IN(sig, taken)) {
			CHECK(after[sig].sa_handler != before[sig].sa_handler);
			CHECK(after[sig].sa_flags & SA_ONSTACK);
			continue;
		}
		if (after[sig].sa_handler != before[sig].sa_handler) {
			fprintf(stderr, "signal %d has another handler\n", sig);
			exit(1);
		}
		int flags = before[sig].sa_flags;
		if (before[sig].sa_handler != SIG_DFL)
			flags |= extra_flags;
		IS(flags, after[sig].sa_flags);
	}
	for (int sig = 1; sig < 65; sig++)
		CHECK(sigismember(&mask_after, sig) == (sigismember(&mask_before, sig) && !IN(sig, unblocked)));
}

/* Nothing was set: five signals are taken, nothing else differs. */
static void dispositions(void)
{
	compare_dispositions(0);
}

/* The program handles everything: its handlers stay, and get an alternate stack. */
static void dispositions_handled(void)
{
	for (int sig = 1; sig < 65; sig++) {
		struct sigaction a = {.sa_handler = nothing};
		sigaction(sig, &a, NULL);
	}
	compare_dispositions(SA_ONSTACK);
}

/* The program blocks everything. */
static void dispositions_blocked(void)
{
	sigset_t all;

	sigfillset(&all);
	CHECK(!sigprocmask(SIG_SETMASK, &all, NULL));
	compare_dispositions(0);
}

/* Faults of the program. */
static sigjmp_buf out;
static volatile sig_atomic_t caught;
static void *volatile fault_address;

static void jump_out(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	caught++;
	fault_address = info->si_addr;
	siglongjmp(out, 1);
}

static void catch_faults(int flags)
{
	struct sigaction a = {.sa_sigaction = jump_out, .sa_flags = SA_SIGINFO | flags};

	CHECK(!sigaction(SIGSEGV, &a, NULL));
	CHECK(!sigaction(SIGBUS, &a, NULL));
}

static void touch(void *p, int write)
{
	int before = caught;

	if (!sigsetjmp(out, 1)) {
		if (write)
			*(volatile char *)p = 1;
		else
			(void)*(volatile char *)p;
		CHECK(!"a fault");
	}
	CHECK(caught == before + 1);
	CHECK(fault_address == p);
}

/* The program touches what it must not: its handler runs, and the library goes on working. */
static void faults(void)
{
	void *device, *closed = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(closed != MAP_FAILED);
	OK(aclrtSetDevice(0));
	OK(aclrtMalloc(&device, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
	for (int i = 0; i < 100; i++) {
		touch(closed, i % 2);
		touch((char *)device + i, i % 2); /* device memory is not there for the host */
		touch((void *)16, 0);
		copy_both_ways((unsigned)i);
	}
	OK(aclrtFree(device));
}

static void *faults_in_thread(void *unused)
{
	stack_t stack = {.ss_sp = malloc(64 << 10), .ss_size = 64 << 10};

	CHECK(!sigaltstack(&stack, NULL));
	faults();
	stack.ss_flags = SS_DISABLE;
	CHECK(!sigaltstack(&stack, NULL));
	free(stack.ss_sp);
	return unused;
}

static void segv_before(void)
{
	catch_faults(0);
	faults();
}

static void segv_before_onstack(void)
{
	pthread_t t;

	catch_faults(SA_ONSTACK);
	faults();
	CHECK(!pthread_create(&t, NULL, faults_in_thread, NULL)); /* jumps need one thread at a time */
	CHECK(!pthread_join(t, NULL));
}

static void segv_after(void)
{
	copy_both_ways(1);
	catch_faults(0);
	faults();
}

static void segv_after_onstack(void)
{
	pthread_t t;

	copy_both_ways(1);
	catch_faults(SA_ONSTACK);
	faults();
	CHECK(!pthread_create(&t, NULL, faults_in_thread, NULL));
	CHECK(!pthread_join(t, NULL));
}

/* A wild pointer in a call is an error code, with handlers of the program set before or not. */
static void wild_pointer(void)
{
	void *device, *closed = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char host[64];

	OK(aclrtSetDevice(0));
	OK(aclrtMalloc(&device, 64, ACL_MEM_MALLOC_HUGE_FIRST));
	CHECK(aclrtMemcpy(device, 64, closed, 64, ACL_MEMCPY_HOST_TO_DEVICE) != ACL_SUCCESS);
	CHECK(aclrtMemcpy(closed, 64, device, 64, ACL_MEMCPY_DEVICE_TO_HOST) != ACL_SUCCESS);
	IS(ACL_ERROR_INVALID_PARAM, aclrtMalloc((void **)closed, 64, ACL_MEM_MALLOC_HUGE_FIRST));
	IS(ACL_ERROR_INVALID_PARAM, aclInit((const char *)closed));
	/* At the top of the address space, where a list would go round to its beginning. */
	void *top = (void *)(uintptr_t)-8;
	size_t n = 64, zero = 0, fail;
	aclrtMemcpyBatchAttr attr = {.dstLoc = {.type = ACL_MEM_LOCATION_TYPE_DEVICE}};
	IS(ACL_ERROR_INVALID_PARAM, aclrtMemcpyBatchAsync(&device, &n, &closed, &n, 1, top, &zero, 1, &fail, NULL));
	IS(ACL_ERROR_INVALID_PARAM, aclrtMemcpyBatchAsync(&device, &n, &closed, top, 2, &attr, &zero, 1, &fail, NULL));
	IS(ACL_ERROR_INVALID_PARAM, aclrtNotifyBatchReset(top, 3));
	OK(aclrtMemcpy(host, 64, device, 64, ACL_MEMCPY_DEVICE_TO_HOST));
	copy_both_ways(1);
}

static void wild(void)
{
	wild_pointer();
	CHECK(!caught);
}

static void wild_handled(void)
{
	catch_faults(0);
	wild_pointer();
	CHECK(!caught);
}

/* A handler that was set after the first call passes on what is not its own. */
static struct sigaction passed_on;

static void pass_on(int sig, siginfo_t *info, void *context)
{
	caught++;
	passed_on.sa_sigaction(sig, info, context);
}

static void wild_chained(void)
{
	copy_both_ways(1);
	struct sigaction a = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	CHECK(!sigaction(SIGSEGV, &a, &passed_on));
	wild_pointer();
	CHECK(caught);
}

/* Handlers that run while copies do. */
static volatile sig_atomic_t ran[65];

static void count(int sig)
{
	int before = errno;
	char room[2048];

	memset(room, sig, sizeof room); /* uses stack, as handlers do */
	__asm__ volatile("" : : "r"(room) : "memory");
	ran[sig]++;
	errno = before;
}

static const int counted[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGCHLD, SIGPROF, SIGVTALRM, SIGWINCH};
enum { counted_n = sizeof counted / sizeof counted[0], burst_n = 24 };

static void *copies(void *stop)
{
	enum { size = 1 << 20 };
	void *host, *device;

	OK(aclrtSetDevice(0));
	OK(aclrtMallocHost(&host, size));
	OK(aclrtMalloc(&device, size, ACL_MEM_MALLOC_HUGE_FIRST));
	do {
		OK(aclrtMemcpy(device, size, host, size, ACL_MEMCPY_HOST_TO_DEVICE));
		copy_both_ways(1);
	} while (stop && !__atomic_load_n((int *)stop, __ATOMIC_ACQUIRE));
	OK(aclrtFree(device));
	OK(aclrtFreeHost(host));
	return NULL;
}

static void under_signals(void)
{
	struct itimerval often = {{0, 1000}, {0, 1000}};
	int stop = 0;
	pthread_t t;

	CHECK(!setitimer(ITIMER_REAL, &often, NULL));
	CHECK(!setitimer(ITIMER_PROF, &often, NULL));
	CHECK(!setitimer(ITIMER_VIRTUAL, &often, NULL));
	CHECK(!pthread_create(&t, NULL, copies, &stop));
	for (int i = 0; i < 50; i++) {
		for (int j = 0; j < counted_n; j++) {
			CHECK(!kill(getpid(), counted[j]));
			CHECK(!pthread_kill(t, counted[j]));
		}
		copies(NULL);
		pid_t child = fork();
		if (!child)
			_exit(0);
		CHECK(child > 0);
		while (waitpid(child, NULL, 0) < 0)
			CHECK(errno == EINTR);
	}
	while (!ran[SIGPROF] || !ran[SIGVTALRM]) /* they count CPU time */
		copies(NULL);
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	CHECK(!pthread_join(t, NULL));
	memset(&often, 0, sizeof often);
	setitimer(ITIMER_REAL, &often, NULL);
	setitimer(ITIMER_PROF, &often, NULL);
	setitimer(ITIMER_VIRTUAL, &often, NULL);
	for (int j = 0; j < counted_n; j++)
		CHECK(ran[counted[j]]);
}

static void handlers_before(void)
{
	for (int j = 0; j < counted_n; j++)
		handle(counted[j], count, 0);
	under_signals();
}

static void handlers_after(void)
{
	copy_both_ways(1);
	for (int j = 0; j < counted_n; j++)
		handle(counted[j], count, SA_ONSTACK | (j % 2 ? SA_RESTART : 0));
	under_signals();
}

/*
 * Many signals that come at once, as after a time in which the thread could take none: the system puts the frames of all of
 * them on the stack before the first handler returns.
 */
static void *burst_in_thread(void *unused)
{
	sigset_t every, before;

	copy_both_ways(1);
	sigfillset(&every);
	CHECK(!pthread_sigmask(SIG_SETMASK, &every, &before));
	for (int j = 0; j < burst_n; j++)
		CHECK(!pthread_kill(pthread_self(), SIGRTMIN + j));
	CHECK(!pthread_sigmask(SIG_SETMASK, &before, NULL));
	copy_both_ways(2);
	return unused;
}

static void burst(void)
{
	pthread_t t;

	for (int j = 0; j < burst_n; j++)
		handle(SIGRTMIN + j, count, SA_ONSTACK);
	burst_in_thread(NULL);
	for (int i = 0; i < 3; i++) {
		CHECK(!pthread_create(&t, NULL, burst_in_thread, NULL));
		CHECK(!pthread_join(t, NULL));
	}
	for (int j = 0; j < burst_n; j++)
		IS(4, ran[SIGRTMIN + j]);
}

/* Handlers of the taken signals, set before the first call, run when such a signal is sent; one that is ignored stays so. */
static void raised(void)
{
	for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
		handle(taken[i], count, 0);
	copy_both_ways(1);
	for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
		if (taken[i] == SIGURG)
			continue;
		CHECK(!raise(taken[i]));
		CHECK(!pthread_kill(pthread_self(), taken[i]));
		IS(2, ran[taken[i]]);
	}
	/* The runtime raises this one itself, in its threads; the program gets those that come from elsewhere. */
	CHECK(!raise(SIGURG));
	IS(0, ran[SIGURG]);
	CHECK(!sigqueue(getpid(), SIGURG, (union sigval){0}));
	while (!ran[SIGURG])
		sched_yield();
	copy_both_ways(1);
}

static void raised_ignored(void)
{
	for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
		handle(taken[i], SIG_IGN, 0);
	copy_both_ways(1);
	for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
		CHECK(!raise(taken[i]));
	copy_both_ways(1);
}

/* A read that waits is interrupted by a handler without SA_RESTART, and goes on with one that has it. */
static pthread_t reader;
static int wake[2];
static volatile sig_atomic_t has_read;

static void *pokes(void *unused)
{
	while (!has_read) { /* the first ones may come before it reads */
		CHECK(!pthread_kill(reader, SIGUSR1));
		usleep(1000);
	}
	return unused;
}

static void *pokes_then_writes(void *unused)
{
	while (ran[SIGUSR2] < 20) {
		CHECK(!pthread_kill(reader, SIGUSR2));
		usleep(1000);
	}
	CHECK(write(wake[1], "x", 1) == 1);
	return unused;
}

static void interrupted(void)
{
	pthread_t t;
	char c;

	CHECK(!pipe(wake));
	reader = pthread_self();
	handle(SIGUSR1, count, 0);
	handle(SIGUSR2, count, SA_RESTART);
	copy_both_ways(1);
	CHECK(!pthread_create(&t, NULL, pokes, NULL));
	CHECK(read(wake[0], &c, 1) == -1 && errno == EINTR);
	has_read = 1;
	CHECK(!pthread_join(t, NULL));
	CHECK(!pthread_create(&t, NULL, pokes_then_writes, NULL));
	CHECK(read(wake[0], &c, 1) == 1);
	CHECK(!pthread_join(t, NULL));
	copy_both_ways(1);
}

/* Signals that the program blocks, to wait for them, reach it and no thread of the library. */
static void wait_for_signals(void)
{
	static const int waited_for[] = {SIGTERM, SIGINT, SIGUSR1, SIGALRM};
	struct timespec limit = {60, 0};
	sigset_t set;

	sigemptyset(&set);
	for (int i = 0; i < 4; i++)
		sigaddset(&set, waited_for[i]);
	CHECK(!sigprocmask(SIG_BLOCK, &set, NULL));
	for (int i = 0; i < 200; i++) {
		copy_both_ways(1);
		CHECK(!kill(getpid(), waited_for[i % 4]));
		CHECK(sigtimedwait(&set, NULL, &limit) == waited_for[i % 4]);
	}
}

static void waited(void)
{
	copy_both_ways(1);
	wait_for_signals();
}

static void waited_before(void)
{
	wait_for_signals();
}

/*
 * The program's alternate stack stays its own, set before the first call or after it. One that came after goes back to the one that
 * was lent. One that came before leaves none: the thread must not call any more, but signals may still come, and it may end.
 */
static void keeps_stack(int first)
{
	stack_t mine = {.ss_sp = malloc(64 << 10), .ss_size = 64 << 10}, before, now;

	if (!first)
		copy_both_ways(1);
	CHECK(!sigaltstack(&mine, &before));
	IS(first ? SS_DISABLE : 0, before.ss_flags);
	for (int i = 0; i < 3; i++) {
		copy_both_ways(1);
		CHECK(!sigaltstack(NULL, &now));
		CHECK(now.ss_sp == mine.ss_sp && now.ss_size == mine.ss_size && now.ss_flags == 0);
	}
	wild_pointer();
	CHECK(!sigaltstack(&before, NULL));
	memset(mine.ss_sp, 0xaa, 64 << 10);
	free(mine.ss_sp);
	CHECK(!raise(SIGURG)); /* as the Go runtime does, which may be late: the thread is out of the library by then */
	if (!first)
		copy_both_ways(1);
}

static void *keeps_stack_in_thread(void *first)
{
	keeps_stack(first != NULL);
	return NULL;
}

static void altstack(void)
{
	pthread_t t;

	keeps_stack(1);
	for (intptr_t first = 0; first < 2; first++) {
		CHECK(!pthread_create(&t, NULL, keeps_stack_in_thread, (void *)first));
		CHECK(!pthread_join(t, NULL));
	}
}

/* A thread that had no alternate stack has one after its first call, and a larger one than the Go runtime would lend it. */
static void altstack_lent(void)
{
	stack_t now;

	CHECK(!sigaltstack(NULL, &now) && now.ss_flags == SS_DISABLE);
	copy_both_ways(1);
	CHECK(!sigaltstack(NULL, &now) && now.ss_flags == 0 && now.ss_size > 32 << 10);
}

static const struct mode modes[] = {
	{"dispositions", dispositions}, {"dispositions_handled", dispositions_handled},
	{"dispositions_blocked", dispositions_blocked},
	{"segv_before", segv_before}, {"segv_before_onstack", segv_before_onstack},
	{"segv_after", segv_after}, {"segv_after_onstack", segv_after_onstack},
	{"wild", wild}, {"wild_handled", wild_handled}, {"wild_chained", wild_chained},
	{"handlers_before", handlers_before}, {"handlers_after", handlers_after}, {"burst", burst},
	{"raised", raised}, {"raised_ignored", raised_ignored}, {"interrupted", interrupted},
	{"waited", waited}, {"waited_before", waited_before}, {"altstack", altstack}, {"altstack_lent", altstack_lent},
};

int main(int argc, char **argv)
{
	RUN_MODE(modes, argc, argv);
}
