/*
 * Two staging buffers take turns, each with an event that says when it is free. The program does not wait for it.
 * (Events of aclrtCreateEventExWithFlag.)
 *
 * finds: host-write-in-flight (error)
 * offence: written in main at OFFENCE
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMallocHost in main at ALLOCATED
 * bytes: 0+1 of pinned 1024
 */
#include "program.h"

enum { SIZE = 1024, STEPS = 3 };

int main(void)
{
	aclrtStream stream = start();
	aclrtEvent taken[2];
	void *staging[2], *device;
	for (int i = 0; i < 2; i++) {
		ACL(aclrtMallocHost(&staging[i], SIZE)); // ALLOCATED
		ACL(aclrtCreateEventExWithFlag(&taken[i], ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS));
	}
	ACL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));

	for (int step = 0; step < STEPS; step++) {
		int turn = step % 2;
#ifdef FIXED
		ACL(aclrtSynchronizeEvent(taken[turn]));
#endif
		*(volatile char *)staging[turn] = step; // OFFENCE
		ACL(aclrtMemcpyAsync(device, SIZE, staging[turn], SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream)); // SUBMIT
		ACL(aclrtRecordEvent(taken[turn], stream));
	}

	ACL(aclrtSynchronizeStream(stream));
	for (int i = 0; i < 2; i++) {
		ACL(aclrtFreeHost(staging[i]));
		ACL(aclrtDestroyEvent(taken[i]));
	}
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
