/*
 * A cache block is filled on the compute stream and offloaded on another. The offload may come first.
 *
 * finds: stream-race (error)
 * offence: submitted aclrtMemcpyAsync in offload at OFFENCE on stream 2, task 1
 * other: submitted aclrtMemsetAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 4096+4096 of device 16384
 */
#include "program.h"

enum { BLOCK = 4096, BLOCKS = 4 };

static void offload(void *to, void *block, aclrtStream stream)
{
	ACL(aclrtMemcpyAsync(to, BLOCK, block, BLOCK, ACL_MEMCPY_DEVICE_TO_HOST, stream)); // OFFENCE
}

int main(void)
{
	aclrtStream compute = start(), transfer;
	char *cache;
	void *host;
	ACL(aclrtCreateStream(&transfer));
	ACL(aclrtMallocHost(&host, BLOCK));
	ACL(aclrtMalloc((void **)&cache, BLOCKS * BLOCK, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
	ACL(aclrtMemset(cache, BLOCKS * BLOCK, 0, BLOCKS * BLOCK));

	ACL(aclrtMemsetAsync(cache + BLOCK, BLOCK, 1, BLOCK, compute)); // SUBMIT
	ACL(aclrtMemsetAsync(cache + 2 * BLOCK, BLOCK, 2, BLOCK, compute));
#ifdef FIXED
	ACL(aclrtSynchronizeStream(compute));
#endif
	offload(host, cache + BLOCK, transfer);

	ACL(aclrtSynchronizeDevice());
	ACL(aclrtDestroyStream(transfer));
	ACL(aclrtFreeHost(host));
	ACL(aclrtFree(cache));
	finish(compute);
	return 0;
}
