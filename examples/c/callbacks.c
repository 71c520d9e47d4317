/*
 * Callbacks: functions of the program as tasks of a stream. There are two kinds, and a stream takes only one of them:
 * aclrtLaunchCallback runs on a thread of yours, aclrtLaunchHostFunc on a thread of the library.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "check.h"

enum { ROUNDS = 5, SIZE = 64 * 1024 };

static unsigned char *landing;  /* pinned; every round lands here */
static int good, seen_by_clerk; /* rounds that were right */
static bool last;               /* the clerk has seen the last round; only the clerk uses it */
static pthread_t clerk;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; /* closed until the clerk is subscribed */

/* A callback must not call the library: the stream waits for it, so it would wait for itself. It may do all else. */
static void inspect(void *round)
{
	int n = *(const int *)round;
	int right = 0;
	for (int i = 0; i < SIZE; i++)
		right += landing[i] == 'A' + n;
	good += right == SIZE;
	seen_by_clerk += pthread_equal(pthread_self(), clerk) != 0;
	last = n == ROUNDS - 1;
}

/* The thread that runs the callbacks. It needs a context like any thread, and takes that of main. */
static void *serve(void *context)
{
	pthread_mutex_lock(&gate); /* a thread that asks for reports unsubscribed is refused */
	pthread_mutex_unlock(&gate);
	ACL(aclrtSetCurrentContext(context));
	while (!last) {
		/* Runs what has come; or waits for it, here a second. Nothing in time is no error. */
		aclError code = aclrtProcessReport(1000);
		if (code != ACL_ERROR_RT_REPORT_TIMEOUT)
			ACL(code);
	}
	return NULL;
}

/* A host function has the same duties, and nobody has to subscribe to it. */
static void count(void *total)
{
	++*(int *)total;
}

int main(void)
{
	ACL(aclInit(NULL));
	ACL(aclrtSetDevice(0));
	aclrtContext context;
	ACL(aclrtGetCurrentContext(&context));
	aclrtStream stream, plain;
	ACL(aclrtCreateStream(&stream));
	ACL(aclrtCreateStream(&plain));
	void *device;
	ACL(aclrtMallocHost((void **)&landing, SIZE)); /* pinned, so that the stream and not this thread does the work */
	ACL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));

	/* The clerk serves this stream from now on. Its id is known once it runs, so it starts behind the gate. */
	pthread_mutex_lock(&gate);
	expect(pthread_create(&clerk, NULL, serve, context) == 0, "no thread could be started");
	ACL(aclrtSubscribeReport((uint64_t)clerk, stream));
	pthread_mutex_unlock(&gate);

	/*
	 * BLOCK holds the stream until the callback has returned, so the next round cannot overwrite what is being looked at.
	 * With NO_BLOCK the stream would go on, and every round would need memory of its own.
	 */
	int rounds[ROUNDS]; /* lives until the callbacks have run: the stream keeps the address, not the value */
	for (int i = 0; i < ROUNDS; i++) {
		rounds[i] = i;
		ACL(aclrtMemsetAsync(device, SIZE, 'A' + i, SIZE, stream));
		ACL(aclrtMemcpyAsync(landing, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
		ACL(aclrtLaunchCallback(inspect, &rounds[i], ACL_CALLBACK_BLOCK, stream));
	}
	ACL(aclrtSynchronizeStream(stream)); /* callbacks are tasks like others: they have run, too */
	pthread_join(clerk, NULL);
	ACL(aclrtUnSubscribeReport((uint64_t)clerk, stream));
	expect(good == ROUNDS, "the clerk saw a round that was not right");
	expect(seen_by_clerk == ROUNDS, "a callback ran on another thread");
	printf("The clerk looked at all %d rounds, byte by byte, in its own thread.\n", ROUNDS);

	/* The other kind: the stream waits for each, one after the other, so count needs no lock. */
	int total = 0;
	for (int i = 0; i < ROUNDS; i++)
		ACL(aclrtLaunchHostFunc(plain, count, &total));
	ACL(aclrtSynchronizeStream(plain));
	expect(total == ROUNDS, "a host function did not run");
	printf("The library itself counted to %d, and needed no clerk.\n", total);

	ACL(aclrtFree(device));
	ACL(aclrtFreeHost(landing));
	ACL(aclrtDestroyStream(plain));
	ACL(aclrtDestroyStream(stream));
	ACL(aclrtResetDevice(0));
	ACL(aclFinalize());
	return 0;
}
