/*
 * exit() and quick_exit() in a handler of SIGTERM, which interrupts what the thread is doing: exit_handler where how who.
 * Functions of the program that run then still call.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "robust.h"

enum { size = 1 << 20, code = 7 };

static const char *where, *how;
static atomic_int victim; /* the system's number of the thread that is to be interrupted, once it is about to be */
static aclrtStream stream;
static aclrtEvent never;
static void *host, *device;

static int is(const char *given, const char *name)
{
	return !strcmp(given, name);
}

static void on_term(int signal)
{
	(void)signal;
	if (is(how, "quick"))
		quick_exit(code);
	exit(code);
}

/*
 * Runs at exit. Outside of the library and in a callback the call does what it is for. A thread that was interrupted in the
 * library may hold a lock, on its way into a wait too; then the call is refused, and nothing hangs.
 */
static void calls(void)
{
	int32_t now = -1;
	aclError result = aclrtGetDevice(&now);
	int inside = is(where, "copy") || is(where, "wait");
	if ((result || now != 0) && !(inside && result == ACL_ERROR_INTERNAL_ERROR)) {
		fprintf(stderr, "at exit aclrtGetDevice returns %d, device %d\n", result, now);
		_exit(1);
	}
}

static void waits(void)
{
	OK(aclrtStreamWaitEvent(stream, never));
	victim = (int)syscall(SYS_gettid);
	aclrtSynchronizeStream(stream);
}

static void copies(void)
{
	victim = (int)syscall(SYS_gettid);
	for (;;) {
		OK(aclrtMemcpyAsync(device, size, host, size, ACL_MEMCPY_HOST_TO_DEVICE, stream));
		OK(aclrtSynchronizeStream(stream));
	}
}

static void sleeps(void)
{
	victim = (int)syscall(SYS_gettid);
	for (;;)
		pause();
}

/* In a function of the program that the library calls on the thread that is in aclrtProcessReport. */
static void pauses(void *unused)
{
	(void)unused;
	sleeps();
}

static void called_back(void)
{
	OK(aclrtSubscribeReport((uint64_t)pthread_self(), stream));
	OK(aclrtLaunchCallback(pauses, NULL, ACL_CALLBACK_NO_BLOCK, stream));
	for (;;)
		aclrtProcessReport(-1);
}

static void *works(void *unused)
{
	OK(aclrtSetDevice(0));
	if (is(where, "wait"))
		waits();
	else if (is(where, "copy"))
		copies();
	else if (is(where, "callback"))
		called_back();
	else
		sleeps();
	return unused;
}

/* Whether the thread sleeps in the kernel. */
static int sleeping(int thread)
{
	char path[64], line[512] = "";
	snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
	FILE *f = fopen(path, "r");
	CHECK(f && fgets(line, sizeof line, f));
	fclose(f);
	char *end = strrchr(line, ')');
	return end && end[1] && end[2] == 'S';
}

/* Sends the signal when the thread is where it is to be. */
static void *interrupts(void *unused)
{
	while (!victim || (!is(where, "copy") && !sleeping(victim)))
		sched_yield();
	syscall(SYS_tgkill, getpid(), victim, SIGTERM);
	return unused;
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = on_term, .sa_flags = SA_ONSTACK};
	pthread_t killer, worker;

	CHECK(argc == 4);
	where = argv[1];
	how = argv[2];
	CHECK(!sigaction(SIGTERM, &action, NULL));
	if (is(how, "quick"))
		at_quick_exit(calls);
	else
		atexit(calls);
	OK(aclrtSetDevice(0));
	OK(aclrtCreateStream(&stream));
	OK(aclrtCreateEventWithFlag(&never, ACL_EVENT_SYNC));
	OK(aclrtMallocHost(&host, size));
	OK(aclrtMalloc(&device, size, ACL_MEM_MALLOC_HUGE_FIRST));
	if (!is(how, "quick") && is(argv[3], "main")) /* otherwise these run before the library's: docs/c.md */
		atexit(calls);
	CHECK(!pthread_create(&killer, NULL, interrupts, NULL));
	if (is(argv[3], "main"))
		works(NULL);
	CHECK(!pthread_create(&worker, NULL, works, NULL));
	pthread_join(worker, NULL);
	return 1;
}
