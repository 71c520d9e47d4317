/*
 * A step that was captured is executed, and another stream gives its kernel the arguments of this step meanwhile. The kernel does not wait for them.
 *
 * finds: stream-race (error)
 * offence: submitted aclmdlRIExecuteAsync in main at OFFENCE on stream 1, task 1
 * other: submitted aclrtLaunchKernelWithHostArgs in main at SUBMIT on stream 2, task 1
 * other: captured aclrtLaunchKernelWithHostArgs in main at CAPTURED
 */
#include "kernel.h"

enum { SIZE = 4096 };

int main(void)
{
	aclrtStream stream = start(), updates;
	aclrtBinHandle binary;
	aclrtFuncHandle add = load_kernel(&binary);
	aclrtEvent updated;
	aclrtTaskGrp group;
	aclmdlRI step;
	void *sum, *rows;
	ACL(aclrtCreateStream(&updates));
	ACL(aclrtCreateEventWithFlag(&updated, ACL_EVENT_EXTERNAL));
	ACL(aclrtMalloc(&sum, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMalloc(&rows, 2 * SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemset(sum, SIZE, 0, SIZE));
	ACL(aclrtMemset(rows, 2 * SIZE, 1, 2 * SIZE));
	struct add args = {(unsigned char *)sum, (unsigned char *)rows, SIZE};

	ACL(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
#ifdef FIXED
	ACL(aclrtStreamWaitEvent(stream, updated));
	ACL(aclrtResetEvent(updated, stream));
#endif
	ACL(aclmdlRICaptureTaskGrpBegin(stream));
	ACL(aclrtLaunchKernelWithHostArgs(add, 1, stream, NULL, &args, sizeof args, NULL, 0)); // CAPTURED
	ACL(aclmdlRICaptureTaskGrpEnd(stream, &group));
	ACL(aclmdlRICaptureEnd(stream, &step));

	ACL(aclmdlRIExecuteAsync(step, stream)); // OFFENCE
	args.from += SIZE;
	ACL(aclmdlRICaptureTaskUpdateBegin(updates, group));
	ACL(aclrtLaunchKernelWithHostArgs(add, 1, updates, NULL, &args, sizeof args, NULL, 0)); // SUBMIT
	ACL(aclmdlRICaptureTaskUpdateEnd(updates));
#ifdef FIXED
	ACL(aclrtRecordEvent(updated, updates));
#endif

	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtSynchronizeStream(updates));
	ACL(aclmdlRIDestroy(step));
	ACL(aclrtFree(rows));
	ACL(aclrtFree(sum));
	ACL(aclrtBinaryUnLoad(binary));
	ACL(aclrtDestroyEvent(updated));
	ACL(aclrtDestroyStream(updates));
	finish(stream);
	return 0;
}
