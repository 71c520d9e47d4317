/*
 * The oldest row of a cache is dropped by moving the others up with one copy, whose source and destination share bytes.
 *
 * finds: batch-overlap (error)
 * offence: submitted aclrtMemcpyAsync in main at OFFENCE on stream 1, task 1
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 512+3072 of device 4096
 */
#include "program.h"

enum { ROW = 512, ROWS = 8, SIZE = ROW * ROWS };

int main(void)
{
	aclrtStream stream = start();
	char *cache;
	ACL(aclrtMalloc((void **)&cache, SIZE, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
	ACL(aclrtMemset(cache, SIZE, 0, SIZE));
#ifdef FIXED
	for (int i = 1; i < ROWS; i++)
		ACL(aclrtMemcpyAsync(cache + (i - 1) * ROW, ROW, cache + i * ROW, ROW, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
#else
	ACL(aclrtMemcpyAsync(cache, SIZE, cache + ROW, SIZE - ROW, ACL_MEMCPY_DEVICE_TO_DEVICE, stream)); // OFFENCE
#endif
	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtFree(cache));
	finish(stream);
	return 0;
}
