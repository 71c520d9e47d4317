/*
 * A cache is saved before anything was put into it.
 *
 * finds: uninitialised-read (warning)
 * offence: submitted aclrtMemcpyAsync in main at OFFENCE on stream 1, task 1
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 0+8192 of device 8192
 */
#include "program.h"

enum { SIZE = 8192 };

int main(void)
{
	aclrtStream stream = start();
	void *host, *cache;
	ACL(aclrtMallocHost(&host, SIZE));
	ACL(aclrtMalloc(&cache, SIZE, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
#ifdef FIXED
	ACL(aclrtMemsetAsync(cache, SIZE, 0, SIZE, stream));
#endif
	ACL(aclrtMemcpyAsync(host, SIZE, cache, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream)); // OFFENCE
	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtFreeHost(host));
	ACL(aclrtFree(cache));
	finish(stream);
	return 0;
}
