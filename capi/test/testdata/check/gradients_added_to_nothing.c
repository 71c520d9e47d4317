/*
 * aclrtReduceAsync adds to what is there. The first one adds to memory that was never written.
 *
 * finds: uninitialised-read (warning)
 * offence: submitted aclrtReduceAsync in main at OFFENCE on stream 1, task 2
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 0+4096 of device 4096
 */
#include "program.h"

enum { SIZE = 4096, STEPS = 3 };

int main(void)
{
	aclrtStream stream = start();
	void *host, *gradient, *sum;
	ACL(aclrtMallocHost(&host, SIZE));
	ACL(aclrtMalloc(&gradient, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMalloc(&sum, SIZE, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
#ifdef FIXED
	ACL(aclrtMemset(sum, SIZE, 0, SIZE));
#endif
	memset(host, 0, SIZE);
	for (int step = 0; step < STEPS; step++) {
		ACL(aclrtMemcpyAsync(gradient, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
		ACL(aclrtReduceAsync(sum, gradient, SIZE, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT, stream, NULL)); // OFFENCE
	}
	ACL(aclrtMemcpyAsync(host, SIZE, sum, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtFree(sum));
	ACL(aclrtFree(gradient));
	ACL(aclrtFreeHost(host));
	finish(stream);
	return 0;
}
