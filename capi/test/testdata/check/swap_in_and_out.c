/*
 * A scheduler swaps one block in and one out with a single batch. All segments have to go the same way.
 *
 * finds: mixed-directions (error)
 * offence: called aclrtMemcpyBatchAsync in main at OFFENCE
 */
#include "program.h"

enum { BLOCK = 1024 };

int main(void)
{
	aclrtStream stream = start();
	char *host, *device;
	ACL(aclrtMallocHost((void **)&host, 2 * BLOCK));
	ACL(aclrtMalloc((void **)&device, 2 * BLOCK, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemset(device, 2 * BLOCK, 1, 2 * BLOCK));

	void *dsts[] = {device, host + BLOCK}, *srcs[] = {host, device + BLOCK};
	size_t sizes[] = {BLOCK, BLOCK}, indexes[] = {0, 1}, failed;
	const aclrtMemLocation above = {0, ACL_MEM_LOCATION_TYPE_DEVICE}, below = {0, ACL_MEM_LOCATION_TYPE_HOST};
	aclrtMemcpyBatchAttr ways[] = {{.dstLoc = above, .srcLoc = below}, {.dstLoc = below, .srcLoc = above}};
#ifdef FIXED
	for (int i = 0; i < 2; i++)
		ACL(aclrtMemcpyBatchAsync(dsts + i, sizes, srcs + i, sizes, 1, ways + i, indexes, 1, &failed, stream));
#else
	aclrtMemcpyBatchAsync(dsts, sizes, srcs, sizes, 2, ways, indexes, 2, &failed, stream); // OFFENCE
#endif
	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtFreeHost(host));
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
