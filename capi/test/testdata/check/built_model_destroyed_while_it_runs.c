/*
 * A model that was built by hand is destroyed while an execution is queued: aclmdlRIDestroy waits for captured models alone.
 *
 * finds: free-in-flight (error)
 * offence: freed aclmdlRIDestroy in main at OFFENCE
 * other: submitted aclmdlRIExecuteAsync in main at SUBMIT on stream 1, task 1
 */
#include "program.h"

enum { SIZE = 4096 };

int main(void)
{
	aclrtStream stream = start(), inner;
	aclmdlRI model;
	void *device;
	ACL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtCreateStreamWithConfig(&inner, 0, ACL_STREAM_PERSISTENT));
	ACL(aclmdlRIBuildBegin(&model, 0));
	ACL(aclmdlRIBindStream(model, inner, 0));
	ACL(aclrtMemsetAsync(device, SIZE, 1, SIZE, inner));
	ACL(aclmdlRIEndTask(model, inner));
	ACL(aclmdlRIBuildEnd(model, NULL));

	ACL(aclmdlRIExecuteAsync(model, stream)); // SUBMIT
#ifdef FIXED
	ACL(aclrtSynchronizeStream(stream));
#endif
	ACL(aclmdlRIDestroy(model)); // OFFENCE

	aclrtSynchronizeStream(stream);
	ACL(aclrtDestroyStream(inner));
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
