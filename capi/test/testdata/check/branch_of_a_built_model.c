/*
 * A model goes one of two ways, as a value in device memory says when it runs. The host writes to the input of the way
 * that is taken. That of the other one is free, and is written in both programs.
 *
 * finds: host-write-in-flight (error)
 * offence: written in main at OFFENCE
 * other: submitted aclmdlRIExecuteAsync in main at SUBMIT on stream 1, task 1
 * other: captured aclrtMemcpyAsync in main at TAKEN
 * other: allocated aclrtMallocHost in main at ALLOCATED
 * bytes: 0+4 of pinned 4096
 */
#include "program.h"

enum { SIZE = 4096, STARTED = 0x7FFFFFFF };

int main(void)
{
	aclrtStream run = start(), head, side;
	aclmdlRI model;
	volatile int *taken, *other;
	void *device, *value, *zero;
	ACL(aclrtMallocHost((void **)&taken, SIZE)); // ALLOCATED
	ACL(aclrtMallocHost((void **)&other, SIZE));
	ACL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMalloc(&value, 64, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMalloc(&zero, 64, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemset(value, 64, 1, 64));
	ACL(aclrtMemset(zero, 64, 0, 64));

	ACL(aclrtCreateStreamWithConfig(&head, 0, ACL_STREAM_PERSISTENT));
	ACL(aclrtCreateStreamWithConfig(&side, 0, ACL_STREAM_PERSISTENT));
	ACL(aclmdlRIBuildBegin(&model, 0));
	ACL(aclmdlRIBindStream(model, head, 0));
	ACL(aclmdlRIBindStream(model, side, STARTED));
	ACL(aclrtSwitchStream(value, ACL_RT_NOT_EQUAL, zero, ACL_RT_SWITCH_INT32, side, NULL, head));
	ACL(aclrtMemcpyAsync(device, SIZE, (void *)other, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, head));
	ACL(aclmdlRIEndTask(model, head));
	ACL(aclrtMemcpyAsync(device, SIZE, (void *)taken, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, side)); // TAKEN
	ACL(aclmdlRIEndTask(model, side));
	ACL(aclmdlRIBuildEnd(model, NULL));

	ACL(aclmdlRIExecuteAsync(model, run)); // SUBMIT
	other[0] = 2;
#ifdef FIXED
	ACL(aclrtSynchronizeStream(run));
#endif
	taken[0] = 2; // OFFENCE
	ACL(aclrtSynchronizeStream(run));

	ACL(aclmdlRIUnbindStream(model, head));
	ACL(aclmdlRIUnbindStream(model, side));
	ACL(aclmdlRIDestroy(model));
	ACL(aclrtDestroyStream(head));
	ACL(aclrtDestroyStream(side));
	ACL(aclrtFreeHost((void *)taken));
	ACL(aclrtFreeHost((void *)other));
	ACL(aclrtFree(device));
	ACL(aclrtFree(value));
	ACL(aclrtFree(zero));
	finish(run);
	return 0;
}
