/* Initialise, work, finalise, again and again: the C library keeps nothing. What the core keeps, TestRounds of core/process looks at. */
#include <acl/acl.h>
#include <malloc.h>
#include <pthread.h>
#include "check.h"

enum { WARM = 200, ROUNDS = 2200, BYTES = 4096 };

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* mallinfo2 is newer than some C libraries */
static int allocated(void)
{
	struct mallinfo m = mallinfo();
	return m.uordblks + m.hblkhd;
}

static void nothing(void *data)
{
	(void)data;
}

static void *work(void *data)
{
	aclrtStream s;
	aclrtEvent e;
	void *device, *host;
	OK(aclrtSetDevice(0));
	OK(aclrtCreateStream(&s));
	OK(aclrtCreateEvent(&e));
	OK(aclrtMalloc(&device, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtMallocHost(&host, BYTES));
	OK(aclrtMemcpyAsync(device, BYTES, host, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, s));
	OK(aclrtRecordEvent(e, s));
	OK(aclrtLaunchHostFunc(s, nothing, NULL));
	OK(aclrtSynchronizeStream(s));
	IS(ACL_ERROR_RT_INVALID_DEVICEID, aclrtSetDevice(99));
	CHECK(aclGetRecentErrMsg());
	OK(aclrtFreeHost(host));
	OK(aclrtFree(device));
	OK(aclrtDestroyEvent(e));
	OK(aclrtDestroyStream(s));
	OK(aclrtResetDevice(0));
	return data;
}

int main(void)
{
	int before = 0;
	for (int i = 0; i < ROUNDS; i++) {
		if (i == WARM)
			before = allocated();
		OK(aclInit(NULL));
		if (i % 4 == 0) {
			pthread_t t;
			CHECK(!pthread_create(&t, NULL, work, NULL) && !pthread_join(t, NULL));
		} else {
			work(NULL);
		}
		OK(aclFinalize());
	}
	int grown = allocated() - before;
	printf("%d bytes in %d rounds\n", grown, ROUNDS - WARM);
	CHECK(grown < 16 * (ROUNDS - WARM)); /* threads of the Go runtime come and go */
	return 0;
}
