/*
 * The workspace of a captured step is freed to save memory, and the step runs once more.
 *
 * finds: stale-model (error)
 * offence: called aclmdlRIExecuteAsync in main at OFFENCE
 * other: captured aclrtMemcpyAsync in main at CAPTURED
 * other: allocated aclrtMalloc in main at ALLOCATED
 * other: freed aclrtFree in main at FREED
 * bytes: 0+4096 of device 8192
 */
#include "program.h"

enum { SIZE = 8192, HALF = SIZE / 2 };

int main(void)
{
	aclrtStream stream = start();
	aclmdlRI step;
	void *host, *workspace;
	ACL(aclrtMallocHost(&host, SIZE));
	ACL(aclrtMalloc(&workspace, SIZE, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
	memset(host, 1, SIZE);

	ACL(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	ACL(aclrtMemcpyAsync(workspace, HALF, host, HALF, ACL_MEMCPY_HOST_TO_DEVICE, stream)); // CAPTURED
	ACL(aclmdlRICaptureEnd(stream, &step));
	ACL(aclmdlRIExecuteAsync(step, stream));
	ACL(aclrtSynchronizeStream(stream));

#ifndef FIXED
	ACL(aclrtFree(workspace)); // FREED
#endif
	aclError code = aclmdlRIExecuteAsync(step, stream); // OFFENCE
	if (code != ACL_SUCCESS)
		fprintf(stderr, "the step does not run: %d\n", (int)code);
	ACL(aclrtSynchronizeStream(stream));

	ACL(aclmdlRIDestroy(step));
#ifdef FIXED
	ACL(aclrtFree(workspace));
#endif
	ACL(aclrtFreeHost(host));
	finish(stream);
	return 0;
}
