/*
 * A receive buffer is cleared after the copy into it was queued: on hardware the zeros win now and then. (Events of
 * aclrtCreateEventWithFlag.)
 *
 * finds: host-write-in-flight (error)
 * offence: written in clear at OFFENCE
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMallocHost in main at ALLOCATED
 * bytes: ?+? of pinned 4096
 */
#include "program.h"

enum { SIZE = 4096 };

static void clear(void *buffer)
{
	memset(buffer, 0, SIZE); // OFFENCE
}

int main(void)
{
	aclrtStream stream = start();
	aclrtEvent arrived;
	void *buffer, *device;
	ACL(aclrtCreateEventWithFlag(&arrived, ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS));
	ACL(aclrtMallocHost(&buffer, SIZE)); // ALLOCATED
	ACL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemset(device, SIZE, 8, SIZE));

	ACL(aclrtMemcpyAsync(buffer, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream)); // SUBMIT
	ACL(aclrtRecordEvent(arrived, stream));
#ifdef FIXED
	ACL(aclrtSynchronizeEvent(arrived));
#endif
	clear(buffer);

	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtDestroyEvent(arrived));
	ACL(aclrtFreeHost(buffer));
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
