/*
 * Two of four pages go up with a batch. A page between them may be patched meanwhile, one of theirs may not.
 *
 * finds: host-write-in-flight (error)
 * offence: written in main at OFFENCE
 * other: submitted aclrtMemcpyBatchAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMallocHost in main at ALLOCATED
 * bytes: 2064+1 of pinned 4096
 */
#include "program.h"

enum { PAGE = 1024 };

int main(void)
{
	aclrtStream stream = start();
	volatile char *pages;
	char *device;
	ACL(aclrtMallocHost((void **)&pages, 4 * PAGE)); // ALLOCATED
	ACL(aclrtMalloc((void **)&device, 4 * PAGE, ACL_MEM_MALLOC_HUGE_FIRST));

	void *dsts[] = {device, device + 2 * PAGE}, *srcs[] = {(void *)pages, (void *)(pages + 2 * PAGE)};
	size_t sizes[] = {PAGE, PAGE}, first = 0, failed;
	aclrtMemcpyBatchAttr up = {.dstLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE}, .srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST}};
	ACL(aclrtMemcpyBatchAsync(dsts, sizes, srcs, sizes, 2, &up, &first, 1, &failed, stream)); // SUBMIT
	pages[PAGE] = pages[0] + pages[2 * PAGE]; // a source may be read, and the page between is free
#ifdef FIXED
	ACL(aclrtSynchronizeStream(stream));
#endif
	pages[2 * PAGE + 16] = 1; // OFFENCE

	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtFreeHost((void *)pages));
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
