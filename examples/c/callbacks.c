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
static int good, on_reporter;   /* rounds that were right */
static bool last;               /* the reporter has seen the last round; only the reporter uses it */
static pthread_t reporter;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; /* closed until the reporter is subscribed */

/* A callback must not call the library: the stream waits for it, so it would wait for itself. It may do all else. */
static void inspect(void *round)
{
	int n = *(const int *)round;
	int right = 0;
	for (int i = 0; i < SIZE; i++)
		right += landing[i] == 'A' + n;
	good += right == SIZE;
	on_reporter += pthread_equal(pthread_self(), reporter) != 0;
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

	/* The reporter serves this stream from now on. Its id is known once it runs, so it starts with the gate closed. */
	pthread_mutex_lock(&gate);
	expect(pthread_create(&reporter, NULL, serve, context) == 0, "no thread could be started");
	ACL(aclrtSubscribeReport((uint64_t)reporter, stream));
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
	pthread_join(reporter, NULL);
	ACL(aclrtUnSubscribeReport((uint64_t)reporter, stream));
	expect(good == ROUNDS, "the reporter saw a round that was not right");
	expect(on_reporter == ROUNDS, "a callback ran on another thread");
	printf("The report thread checked all %d rounds, byte by byte.\n", ROUNDS);

	/* The other kind: the stream waits for each, one after the other, so count needs no lock. */
	int total = 0;
	for (int i = 0; i < ROUNDS; i++)
		ACL(aclrtLaunchHostFunc(plain, count, &total));
	ACL(aclrtSynchronizeStream(plain));
	expect(total == ROUNDS, "a host function did not run");
	printf("The library called its host function %d times.\n", total);

	ACL(aclrtFree(device));
	ACL(aclrtFreeHost(landing));
	ACL(aclrtDestroyStream(plain));
	ACL(aclrtDestroyStream(stream));
	ACL(aclrtResetDevice(0));
	ACL(aclFinalize());
	return 0;
}
