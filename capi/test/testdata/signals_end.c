/* Signals that end a program: they still do, also while it waits in the library. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "robust.h"

static void handle(int sig, void (*handler)(int), int flags)
{
	struct sigaction a = {.sa_handler = handler, .sa_flags = flags};

	CHECK(!sigaction(sig, &a, NULL));
}

static volatile sig_atomic_t broken;

static void count(int sig)
{
	broken += sig == SIGPIPE;
}

/* Waits for ever; the test sends the signal. */
static aclrtStream stuck_stream(aclrtEvent *event)
{
	aclrtStream s;

	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	OK(aclrtCreateStream(&s));
	OK(aclrtCreateEventWithFlag(event, ACL_EVENT_SYNC));
	OK(aclrtStreamWaitEvent(s, *event));
	return s;
}

static void ready(void)
{
	puts("waiting");
	fflush(stdout);
}

static void wait_stream(void)
{
	aclrtEvent e;
	aclrtStream s = stuck_stream(&e);

	ready();
	aclrtSynchronizeStream(s);
}

static void wait_event(void)
{
	aclrtEvent e, after;
	aclrtStream s = stuck_stream(&e);

	OK(aclrtCreateEventWithFlag(&after, ACL_EVENT_SYNC));
	OK(aclrtRecordEvent(after, s));
	ready();
	aclrtSynchronizeEvent(after);
}

static void wait_device(void)
{
	aclrtEvent e;

	stuck_stream(&e);
	ready();
	aclrtSynchronizeDevice();
}

static void wait_report(void)
{
	aclrtEvent e;
	aclrtStream s = stuck_stream(&e);

	OK(aclrtSubscribeReport((uint64_t)pthread_self(), s));
	ready();
	aclrtProcessReport(-1);
}

/* Waits with a handler that ends the program its own way. */
static void polite_end(int sig)
{
	_exit(40 + sig);
}

static void wait_handled(void)
{
	handle(SIGINT, polite_end, 0);
	wait_stream();
}

static void broken_pipe(void)
{
	int p[2];

	copy_both_ways(1);
	CHECK(!pipe(p) && !close(p[0]));
	CHECK(write(p[1], "x", 1) == 2); /* never gets here */
}

static void broken_pipe_ignored(void)
{
	int p[2];

	handle(SIGPIPE, SIG_IGN, 0);
	copy_both_ways(1);
	CHECK(!pipe(p) && !close(p[0]));
	CHECK(write(p[1], "x", 1) == -1 && errno == EPIPE);
	handle(SIGPIPE, SIG_IGN, 0);
	CHECK(write(p[1], "x", 1) == -1 && errno == EPIPE);
	handle(SIGPIPE, count, SA_ONSTACK);
	CHECK(write(p[1], "x", 1) == -1 && errno == EPIPE && broken == 1);
}

static void broken_pipe_handled(void)
{
	int p[2];

	handle(SIGPIPE, count, 0);
	copy_both_ways(1);
	CHECK(!pipe(p) && !close(p[0]));
	CHECK(write(p[1], "x", 1) == -1 && errno == EPIPE && broken == 1);
}

static void crash(void)
{
	copy_both_ways(1);
	*(volatile int *)16 = 1;
}

static void crash_on_device_memory(void)
{
	void *device;

	OK(aclrtSetDevice(0));
	OK(aclrtMalloc(&device, 64, ACL_MEM_MALLOC_HUGE_FIRST));
	*(volatile int *)device = 1;
}

static void *crash_in_thread(void *unused)
{
	*(volatile int *)16 = 1; /* in a thread that never called */
	return unused;
}

static void crash_elsewhere(void)
{
	pthread_t t;

	copy_both_ways(1);
	CHECK(!pthread_create(&t, NULL, crash_in_thread, NULL));
	pthread_join(t, NULL);
}

static void *divide(void *by)
{
	int one = 1;

	__asm__ volatile("" : "+r"(one));
#if defined __x86_64__
	__asm__ volatile("cltd\n\tidivl %0" : : "r"((int)(intptr_t)by), "a"(one) : "edx", "cc");
#else
	raise(SIGFPE);
#endif
	return NULL;
}

static void crash_dividing(void)
{
	copy_both_ways(1);
	divide(NULL);
}

static void aborts(void)
{
	copy_both_ways(1);
	abort();
}

static void asks_to_die(void)
{
	copy_both_ways(1);
	kill(getpid(), SIGTERM);
	for (;;)
		copy_both_ways(1);
}

static const struct mode modes[] = {
	{"wait_stream", wait_stream}, {"wait_event", wait_event}, {"wait_device", wait_device},
	{"wait_report", wait_report}, {"wait_handled", wait_handled},
	{"broken_pipe", broken_pipe}, {"broken_pipe_ignored", broken_pipe_ignored}, {"broken_pipe_handled", broken_pipe_handled},
	{"crash", crash}, {"crash_on_device_memory", crash_on_device_memory}, {"crash_elsewhere", crash_elsewhere},
	{"crash_dividing", crash_dividing}, {"aborts", aborts}, {"asks_to_die", asks_to_die},
};

int main(int argc, char **argv)
{
	RUN_MODE(modes, argc, argv);
}
