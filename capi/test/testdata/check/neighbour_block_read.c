/*
 * Eight blocks lie on one page, and one of them is in flight. Looking at its neighbours is fine; looking at it is not.
 *
 * finds: host-read-in-flight (error)
 * offence: read in main at OFFENCE
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMallocHost in main at ALLOCATED
 * bytes: 1536+1 of pinned 4096
 */
#include "program.h"

enum { BLOCK = 512, BLOCKS = 8, IN_FLIGHT = 3 };

int main(void)
{
	aclrtStream stream = start();
	volatile unsigned char *pool;
	void *device;
	ACL(aclrtMallocHost((void **)&pool, BLOCKS * BLOCK)); // ALLOCATED
	ACL(aclrtMalloc(&device, BLOCK, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemset(device, BLOCK, 9, BLOCK));

	void *block = (char *)pool + IN_FLIGHT * BLOCK;
	ACL(aclrtMemcpyAsync(block, BLOCK, device, BLOCK, ACL_MEMCPY_DEVICE_TO_HOST, stream)); // SUBMIT
	for (int i = 0; i < BLOCKS * BLOCK; i += 64) // the innocent ones, also written
		if (i / BLOCK != IN_FLIGHT)
			pool[i] = pool[i + 63] + 1;
#ifdef FIXED
	ACL(aclrtSynchronizeStream(stream));
#endif
	printf("%d\n", pool[IN_FLIGHT * BLOCK]); // OFFENCE

	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtFreeHost((void *)pool));
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
