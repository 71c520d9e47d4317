/*
 * A kernel is queued, and the memory it works on is freed at once: aclrtFree does not wait for it.
 *
 * finds: free-in-flight (error)
 * offence: freed aclrtFree in release at OFFENCE
 * other: submitted aclrtLaunchKernelWithHostArgs in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 0+4096 of device 4096
 */
#include "kernel.h"

enum { SIZE = 4096 };

static void release(void *scratch)
{
	ACL(aclrtFree(scratch)); // OFFENCE
}

int main(void)
{
	aclrtStream stream = start();
	aclrtBinHandle binary;
	aclrtFuncHandle kernel = load_kernel(&binary);
	void *scratch, *sum;
	ACL(aclrtMalloc(&scratch, SIZE, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
	ACL(aclrtMalloc(&sum, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemset(scratch, SIZE, 1, SIZE));
	ACL(aclrtMemset(sum, SIZE, 0, SIZE));
	struct add args = {sum, scratch, SIZE};
	ACL(aclrtLaunchKernelWithHostArgs(kernel, 4, stream, NULL, &args, sizeof args, NULL, 0)); // SUBMIT
#ifdef FIXED
	ACL(aclrtSynchronizeStream(stream));
#endif
	release(scratch);
	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtFree(sum));
	ACL(aclrtBinaryUnLoad(binary));
	finish(stream);
	return 0;
}
