/*
 * A model is built by hand from two streams. One fills a table, the other one copies it, and no event orders the two:
 * the order of the calls does not count.
 *
 * finds: stream-race (error)
 * offence: captured aclrtMemcpyAsync in main at FILLS
 * other: captured aclrtMemcpyAsync in main at COPIES
 * other: submitted aclmdlRIExecuteAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 0+4096 of device 4096
 */
#include "program.h"

enum { SIZE = 4096 };

int main(void)
{
	aclrtStream run = start(), fills, copies;
	aclmdlRI model;
	aclrtEvent filled;
	void *host, *table, *copy;
	ACL(aclrtMallocHost(&host, SIZE));
	ACL(aclrtMalloc(&table, SIZE, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
	ACL(aclrtMalloc(&copy, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtCreateEventWithFlag(&filled, ACL_EVENT_SYNC));
	ACL(aclrtMemset(table, SIZE, 0, SIZE));

	ACL(aclrtCreateStreamWithConfig(&fills, 0, ACL_STREAM_PERSISTENT));
	ACL(aclrtCreateStreamWithConfig(&copies, 0, ACL_STREAM_PERSISTENT));
	ACL(aclmdlRIBuildBegin(&model, 0));
	ACL(aclmdlRIBindStream(model, fills, 0));
	ACL(aclmdlRIBindStream(model, copies, 0));
	ACL(aclrtMemcpyAsync(table, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, fills)); // FILLS
#ifdef FIXED
	ACL(aclrtRecordEvent(filled, fills));
	ACL(aclrtStreamWaitEvent(copies, filled));
	ACL(aclrtResetEvent(filled, copies));
#endif
	ACL(aclrtMemcpyAsync(copy, SIZE, table, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, copies)); // COPIES
	ACL(aclmdlRIEndTask(model, copies));
	ACL(aclmdlRIBuildEnd(model, NULL));

	ACL(aclmdlRIExecuteAsync(model, run)); // SUBMIT
	ACL(aclrtSynchronizeStream(run));

	ACL(aclmdlRIUnbindStream(model, fills));
	ACL(aclmdlRIUnbindStream(model, copies));
	ACL(aclmdlRIDestroy(model));
	ACL(aclrtDestroyStream(fills));
	ACL(aclrtDestroyStream(copies));
	ACL(aclrtDestroyEvent(filled));
	ACL(aclrtFreeHost(host));
	ACL(aclrtFree(table));
	ACL(aclrtFree(copy));
	finish(run);
	return 0;
}
