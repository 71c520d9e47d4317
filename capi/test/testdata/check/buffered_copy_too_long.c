/*
 * ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE takes the bytes during the call, so that the message may be written again at once. The last message is
 * longer than the device's memory for it. Pinned memory of 64 KiB comes just before the buffer that the runtime takes.
 *
 * finds: out-of-bounds (error)
 * offence: submitted aclrtMemcpyAsync in main at OFFENCE on stream 1, task 2
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 1000+24 of device 1000
 */
#include "program.h"

enum { MESSAGE = 1024, ROOM = 1000, STAGING = 64 << 10 };

int main(void)
{
	aclrtStream stream = start();
	void *staging, *device;
	ACL(aclrtMallocHost(&staging, STAGING));
	ACL(aclrtMalloc(&device, ROOM, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
	for (int step = 0; step < 2; step++) {
		size_t n = step == 0 ? ROOM / 2 : MESSAGE;
#ifdef FIXED
		n = n < ROOM ? n : ROOM;
#endif
		memset(staging, step, STAGING);
		ACL(aclrtMemcpyAsync(device, n, staging, n, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, stream)); // OFFENCE
	}
	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtFree(device));
	ACL(aclrtFreeHost(staging));
	finish(stream);
	return 0;
}
