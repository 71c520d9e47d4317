/*
 * A step is captured once and run a thousand times: two streams move blocks to the device, mix them there and bring the
 * result back. Nothing runs while it is captured; each run is one call.
 */
#include <string.h>

#include "check.h"

enum { BLOCKS = 64, BLOCK = 4096, BYTES = BLOCKS * BLOCK, RUNS = 1000 };

int main(void)
{
	ACL(aclInit(NULL));
	ACL(aclrtSetDevice(0));
	aclrtStream first, second;
	ACL(aclrtCreateStream(&first));
	ACL(aclrtCreateStream(&second));
	aclrtEvent fork, join; /* events made this way can be part of a capture */
	ACL(aclrtCreateEventExWithFlag(&fork, ACL_EVENT_SYNC));
	ACL(aclrtCreateEventExWithFlag(&join, ACL_EVENT_SYNC));

	unsigned char *in, *out, *device;
	ACL(aclrtMallocHost((void **)&in, BYTES)); /* pinned: other memory cannot be captured */
	ACL(aclrtMallocHost((void **)&out, BYTES));
	ACL(aclrtMalloc((void **)&device, 2 * BYTES, ACL_MEM_MALLOC_HUGE_FIRST));

	ACL(aclmdlRICaptureBegin(first, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	for (int i = 0; i < BLOCKS; i++)
		ACL(aclrtMemcpyAsync(device + i * BLOCK, BLOCK, in + i * BLOCK, BLOCK, ACL_MEMCPY_HOST_TO_DEVICE, first));
	ACL(aclrtRecordEvent(fork, first));
	ACL(aclrtStreamWaitEvent(second, fork)); /* the second stream joins the capture */
	for (int i = 0; i < BLOCKS; i++)         /* the blocks in reverse order */
		ACL(aclrtMemcpyAsync(device + BYTES + i * BLOCK, BLOCK, device + (BLOCKS - 1 - i) * BLOCK, BLOCK, ACL_MEMCPY_DEVICE_TO_DEVICE, second));
	ACL(aclrtRecordEvent(join, second));
	ACL(aclrtStreamWaitEvent(first, join)); /* and is joined back, which every stream has to be */
	ACL(aclrtMemcpyAsync(out, BYTES, device + BYTES, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, first));

	aclmdlRI step;
	ACL(aclmdlRICaptureEnd(first, &step));
	printf("%d copies and 4 events are one model.\n", 2 * BLOCKS + 1);

	for (int run = 0; run < RUNS; run++) {
		for (int i = 0; i < BLOCKS; i++)
			memset(in + i * BLOCK, run + i, BLOCK); /* the bytes are read when the model runs */
		ACL(aclmdlRIExecuteAsync(step, first));
		ACL(aclrtSynchronizeStream(first));
		for (int i = 0; i < BLOCKS; i++)
			expect(out[i * BLOCK] == (unsigned char)(run + BLOCKS - 1 - i), "a run left other bytes than the calls would");
	}
	printf("It ran %d times, and every result is right.\n", RUNS);

	ACL(aclmdlRIDestroy(step));
	ACL(aclrtFree(device));
	ACL(aclrtFreeHost(out));
	ACL(aclrtFreeHost(in));
	ACL(aclrtDestroyEvent(join));
	ACL(aclrtDestroyEvent(fork));
	ACL(aclrtDestroyStream(second));
	ACL(aclrtDestroyStream(first));
	ACL(aclrtResetDevice(0));
	ACL(aclFinalize());
	return 0;
}
