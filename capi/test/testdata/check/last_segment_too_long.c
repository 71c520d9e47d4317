/*
 * Half a block is left behind the last one, and the batch of the whole cache counts it as a block.
 *
 * finds: out-of-bounds (error)
 * offence: called aclrtMemcpyBatchAsync in main at OFFENCE
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 258048+4096 of device 260096
 */
#include "program.h"

enum { BLOCK = 4096, BLOCKS = 64, CACHE = BLOCKS * BLOCK - BLOCK / 2 };

int main(void)
{
	aclrtStream stream = start();
	char *host, *cache;
	ACL(aclrtMallocHost((void **)&host, BLOCKS * BLOCK));
	ACL(aclrtMalloc((void **)&cache, CACHE, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED

	void *dsts[BLOCKS], *srcs[BLOCKS];
	size_t sizes[BLOCKS], first = 0, failed;
	for (size_t i = 0; i < BLOCKS; i++) {
		dsts[i] = cache + i * BLOCK;
		srcs[i] = host + i * BLOCK;
		sizes[i] = BLOCK;
	}
#ifdef FIXED
	sizes[BLOCKS - 1] = CACHE % BLOCK;
#endif
	aclrtMemcpyBatchAttr up = {.dstLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE}, .srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST}};
	aclrtMemcpyBatchAsync(dsts, sizes, srcs, sizes, BLOCKS, &up, &first, 1, &failed, stream); // OFFENCE
	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtFreeHost(host));
	ACL(aclrtFree(cache));
	finish(stream);
	return 0;
}
