/*
 * A stream is to wait for an event before anything was recorded in it: the wait orders nothing.
 *
 * finds: stream-race (error)
 * offence: submitted aclrtMemcpyAsync in main at OFFENCE on stream 2, task 1
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 1
 * other: waited aclrtStreamWaitEvent in main at WAITED
 */
#include "program.h"

enum { SIZE = 4096 };

int main(void)
{
	aclrtStream upload = start(), download;
	aclrtEvent arrived;
	void *from, *to, *device;
	ACL(aclrtCreateStream(&download));
	ACL(aclrtCreateEventExWithFlag(&arrived, ACL_EVENT_SYNC));
	ACL(aclrtMallocHost(&from, SIZE));
	ACL(aclrtMallocHost(&to, SIZE));
	ACL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemset(device, SIZE, 0, SIZE));

#ifndef FIXED
	ACL(aclrtStreamWaitEvent(download, arrived)); // WAITED
#endif
	ACL(aclrtMemcpyAsync(device, SIZE, from, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, upload)); // SUBMIT
	ACL(aclrtRecordEvent(arrived, upload));
#ifdef FIXED
	ACL(aclrtStreamWaitEvent(download, arrived));
#endif
	ACL(aclrtMemcpyAsync(to, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, download)); // OFFENCE

	ACL(aclrtSynchronizeDevice());
	ACL(aclrtDestroyEvent(arrived));
	ACL(aclrtDestroyStream(download));
	ACL(aclrtFreeHost(from));
	ACL(aclrtFreeHost(to));
	ACL(aclrtFree(device));
	finish(upload);
	return 0;
}
