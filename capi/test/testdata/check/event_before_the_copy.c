/*
 * The program waits for an event that was recorded before the copy it means. (Events of aclrtCreateEvent, asked in a loop.)
 *
 * finds: host-read-in-flight (error)
 * offence: read in main at OFFENCE
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 3
 * other: allocated aclrtMallocHost in main at ALLOCATED
 * bytes: 0+4 of pinned 256
 */
#include "program.h"

enum { SIZE = 256 };

int main(void)
{
	aclrtStream stream = start();
	aclrtEvent done;
	aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
	int *tokens;
	void *device;
	ACL(aclrtCreateEvent(&done));
	ACL(aclrtMallocHost((void **)&tokens, SIZE)); // ALLOCATED
	ACL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));

	ACL(aclrtMemsetAsync(device, SIZE, 0, SIZE, stream));
#ifndef FIXED
	ACL(aclrtRecordEvent(done, stream));
#endif
	ACL(aclrtMemcpyAsync(tokens, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream)); // SUBMIT
#ifdef FIXED
	ACL(aclrtRecordEvent(done, stream));
#endif
	while (status != ACL_EVENT_RECORDED_STATUS_COMPLETE)
		ACL(aclrtQueryEventStatus(done, &status));
	printf("token %d\n", tokens[0]); // OFFENCE

	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtDestroyEvent(done));
	ACL(aclrtFreeHost(tokens));
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
