/*
 * A page table sends two pages to one place. Segments of a batch run in any order, so either may win.
 *
 * finds: batch-overlap (error)
 * offence: submitted aclrtMemcpyBatchAsync in main at OFFENCE on stream 1, task 1
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 8192+4096 of device 16384
 */
#include "program.h"

enum { PAGE = 4096, PAGES = 4 };

int main(void)
{
	aclrtStream stream = start();
#ifdef FIXED
	const int table[PAGES] = {3, 2, 0, 1};
#else
	const int table[PAGES] = {3, 2, 0, 2};
#endif
	char *cache, *device;
	ACL(aclrtMallocHost((void **)&cache, PAGES * PAGE));
	ACL(aclrtMalloc((void **)&device, PAGES * PAGE, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
	void *dsts[PAGES], *srcs[PAGES];
	size_t sizes[PAGES], first = 0, failed;
	for (int i = 0; i < PAGES; i++) {
		srcs[i] = cache + i * PAGE;
		dsts[i] = device + table[i] * PAGE;
		sizes[i] = PAGE;
	}
	aclrtMemcpyBatchAttr up = {.dstLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE}, .srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST}};
	ACL(aclrtMemcpyBatchAsync(dsts, sizes, srcs, sizes, PAGES, &up, &first, 1, &failed, stream)); // OFFENCE
	ACL(aclrtSynchronizeStream(stream));

	ACL(aclrtFreeHost(cache));
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
