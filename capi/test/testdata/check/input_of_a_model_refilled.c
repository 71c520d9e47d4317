/*
 * The input of a captured step is written while the step is under way. The step also calls a function, so it has streams
 * of its own.
 *
 * finds: host-write-in-flight (error)
 * offence: written in main at OFFENCE
 * other: submitted aclmdlRIExecuteAsync in main at SUBMIT on stream 1, task 1
 * other: captured aclrtMemcpyAsync in main at CAPTURED
 * other: allocated aclrtMallocHost in main at ALLOCATED
 * bytes: 0+4 of pinned 4096
 */
#include "program.h"

enum { SIZE = 4096 };

static void count(void *data) { ++*(int *)data; }

int main(void)
{
	aclrtStream stream = start();
	aclmdlRI step;
	volatile int *input;
	void *device;
	int calls = 0;
	ACL(aclrtMallocHost((void **)&input, SIZE)); // ALLOCATED
	ACL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));

	ACL(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	ACL(aclrtMemcpyAsync(device, SIZE, (void *)input, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream)); // CAPTURED
	ACL(aclrtLaunchHostFunc(stream, count, &calls));
	ACL(aclmdlRICaptureEnd(stream, &step));

	ACL(aclmdlRIExecuteAsync(step, stream)); // SUBMIT
#ifdef FIXED
	ACL(aclrtSynchronizeStream(stream));
#endif
	input[0] = 2; // OFFENCE

	ACL(aclrtSynchronizeStream(stream));
	ACL(aclmdlRIDestroy(step));
	ACL(aclrtFreeHost((void *)input));
	ACL(aclrtFree(device));
	finish(stream);
	return calls == 1 ? 0 : 1;
}
