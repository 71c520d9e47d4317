/*
 * Two streams and events: twelve cars of data go through two buffers of the device, one stream filling them while the
 * other empties them. Streams know nothing of each other; events put order between them without stopping the host.
 */
#include <string.h>

#include "check.h"

enum { CARS = 12, CAR = 256 * 1024, BUFFERS = 2 };

int main(void)
{
	ACL(aclInit(NULL));
	ACL(aclrtSetDevice(0));
	aclrtStream up, down;
	ACL(aclrtCreateStream(&up));
	ACL(aclrtCreateStream(&down));

	unsigned char *load, *arrived;
	ACL(aclrtMallocHost((void **)&load, CARS * CAR)); /* pinned: both streams run while the host goes on */
	ACL(aclrtMallocHost((void **)&arrived, CARS * CAR));
	for (int i = 0; i < CARS * CAR; i++)
		load[i] = (unsigned char)(i * 7 + i / CAR);
	memset(arrived, 0, CARS * CAR);

	/*
	 * An event made this way needs no reset: a wait means the latest record made before it, and passes at once if there
	 * was none. That makes the loop below the same for the first round and for all others.
	 */
	void *buffer[BUFFERS];
	aclrtEvent filled[BUFFERS], emptied[BUFFERS];
	for (int b = 0; b < BUFFERS; b++) {
		ACL(aclrtMalloc(&buffer[b], CAR, ACL_MEM_MALLOC_HUGE_FIRST));
		ACL(aclrtCreateEventExWithFlag(&filled[b], ACL_EVENT_SYNC));
		ACL(aclrtCreateEventExWithFlag(&emptied[b], ACL_EVENT_SYNC));
	}

	/* Nothing in this loop waits on the host. All it does is queue: copies, marks, and waits for marks. */
	for (int i = 0; i < CARS; i++) {
		int b = i % BUFFERS;

		ACL(aclrtStreamWaitEvent(up, emptied[b])); /* not over what the other stream still has to fetch */
		ACL(aclrtMemcpyAsync(buffer[b], CAR, load + i * CAR, CAR, ACL_MEMCPY_HOST_TO_DEVICE, up));
		ACL(aclrtRecordEvent(filled[b], up));

		ACL(aclrtStreamWaitEvent(down, filled[b])); /* not before it is there */
		ACL(aclrtMemcpyAsync(arrived + i * CAR, CAR, buffer[b], CAR, ACL_MEMCPY_DEVICE_TO_HOST, down));
		ACL(aclrtRecordEvent(emptied[b], down));
	}
	printf("%d cars are on the rope: one stream takes them up, the other down.\n", CARS);

	/*
	 * The last thing on down waits for the last thing on up, so one would be enough for the bytes. Each stream keeps its
	 * own errors, though, and only its own synchronisation tells them.
	 */
	ACL(aclrtSynchronizeStream(up));
	ACL(aclrtSynchronizeStream(down));
	expect(memcmp(load, arrived, CARS * CAR) == 0, "a car was overwritten or fetched too early");
	printf("All of them arrived, through %d buffers, and none ran into another.\n", BUFFERS);

	for (int b = 0; b < BUFFERS; b++) {
		ACL(aclrtDestroyEvent(emptied[b]));
		ACL(aclrtDestroyEvent(filled[b]));
		ACL(aclrtFree(buffer[b]));
	}
	ACL(aclrtFreeHost(arrived));
	ACL(aclrtFreeHost(load));
	ACL(aclrtDestroyStream(down));
	ACL(aclrtDestroyStream(up));
	ACL(aclrtResetDevice(0));
	ACL(aclFinalize());
	return 0;
}
