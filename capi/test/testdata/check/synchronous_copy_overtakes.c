/*
 * aclrtMemcpy waits for itself, not for the streams: it reads the cache that a stream is still filling.
 *
 * finds: host-read-in-flight (error)
 * offence: read aclrtMemcpy in main at OFFENCE
 * other: submitted aclrtMemsetAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 0+1024 of device 1024
 */
#include "program.h"

enum { SIZE = 1024 };

int main(void)
{
	aclrtStream stream = start();
	char result[SIZE];
	void *cache;
	ACL(aclrtMalloc(&cache, SIZE, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
	ACL(aclrtMemset(cache, SIZE, 0, SIZE));

	ACL(aclrtMemsetAsync(cache, SIZE, 1, SIZE, stream)); // SUBMIT
#ifdef FIXED
	ACL(aclrtSynchronizeStream(stream));
#endif
	ACL(aclrtMemcpy(result, SIZE, cache, SIZE, ACL_MEMCPY_DEVICE_TO_HOST)); // OFFENCE

	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtFree(cache));
	finish(stream);
	return 0;
}
