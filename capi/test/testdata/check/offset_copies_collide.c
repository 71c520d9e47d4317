/*
 * Two streams append to one log by copies with offsets, and the second offset is too small by half a record.
 *
 * finds: stream-race (error)
 * offence: submitted aclrtMemcpyAsyncWithOffset in append at OFFENCE on stream 2, task 1
 * other: submitted aclrtMemcpyAsyncWithOffset in append at OFFENCE on stream 1, task 1
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 128+128 of device 1024
 */
#include "program.h"

enum { RECORD = 256, LOG = 1024 };

static void append(void **cells, size_t at, aclrtStream stream)
{
	const void **record = (const void **)(cells + 1);
	ACL(aclrtMemcpyAsyncWithOffset(cells, LOG, at, record, RECORD, 0, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, stream)); // OFFENCE
}

int main(void)
{
	aclrtStream stream = start(), other;
	void *log, *record, **cells;
	ACL(aclrtCreateStream(&other));
	ACL(aclrtMalloc(&log, LOG, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
	ACL(aclrtMalloc(&record, RECORD, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemset(record, RECORD, 'r', RECORD));
	ACL(aclrtMalloc((void **)&cells, 2 * sizeof *cells, ACL_MEM_MALLOC_HUGE_FIRST)); /* they hold the addresses */
	void *bases[] = {log, record};
	ACL(aclrtMemcpy(cells, sizeof bases, bases, sizeof bases, ACL_MEMCPY_HOST_TO_DEVICE));

	append(cells, 0, stream);
#ifdef FIXED
	append(cells, RECORD, other);
#else
	append(cells, RECORD / 2, other);
#endif

	ACL(aclrtSynchronizeDevice());
	ACL(aclrtFree(cells));
	ACL(aclrtFree(record));
	ACL(aclrtFree(log));
	ACL(aclrtDestroyStream(other));
	finish(stream);
	return 0;
}
