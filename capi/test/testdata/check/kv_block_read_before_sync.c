/*
 * A cache block comes down from the device, and its checksum is taken before the stream was synchronised. One of the
 * incidents: "a result is read before the stream was synchronised".
 *
 * finds: host-read-in-flight (error)
 * offence: read in checksum at OFFENCE
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMallocHost in main at ALLOCATED
 * bytes: 0+1 of pinned 65536
 */
#include "program.h"

enum { BLOCK = 65536 };

static unsigned checksum(const unsigned char *block)
{
	unsigned sum = 0;
	for (int i = 0; i < BLOCK; i++)
		sum += block[i]; // OFFENCE
	return sum;
}

int main(void)
{
	aclrtStream stream = start();
	unsigned char *block;
	void *cache;
	ACL(aclrtMallocHost((void **)&block, BLOCK)); // ALLOCATED
	ACL(aclrtMalloc(&cache, BLOCK, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemset(cache, BLOCK, 1, BLOCK));

	ACL(aclrtMemcpyAsync(block, BLOCK, cache, BLOCK, ACL_MEMCPY_DEVICE_TO_HOST, stream)); // SUBMIT
#ifdef FIXED
	ACL(aclrtSynchronizeStream(stream));
#endif
	printf("checksum %u\n", checksum(block));

	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtFreeHost(block));
	ACL(aclrtFree(cache));
	finish(stream);
	return 0;
}
