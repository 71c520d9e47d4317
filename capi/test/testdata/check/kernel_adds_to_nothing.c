/*
 * A kernel adds gradients to a buffer that nobody has cleared.
 *
 * finds: uninitialised-read (warning)
 * offence: submitted aclrtLaunchKernelWithHostArgs in accumulate at OFFENCE on stream 1, task 2
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 0+4096 of device 4096
 */
#include "kernel.h"

enum { SIZE = 4096 };

static void accumulate(aclrtFuncHandle kernel, void *to, void *from, aclrtStream stream)
{
	struct add args = {to, from, SIZE};
	ACL(aclrtLaunchKernelWithHostArgs(kernel, 4, stream, NULL, &args, sizeof args, NULL, 0)); // OFFENCE
}

int main(void)
{
	aclrtStream stream = start();
	aclrtBinHandle binary;
	aclrtFuncHandle kernel = load_kernel(&binary);
	void *gradient, *sum;
	ACL(aclrtMalloc(&gradient, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMalloc(&sum, SIZE, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
#ifdef FIXED
	ACL(aclrtMemsetAsync(sum, SIZE, 0, SIZE, stream));
#endif
	ACL(aclrtMemsetAsync(gradient, SIZE, 1, SIZE, stream));
	accumulate(kernel, sum, gradient, stream);
	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtFree(sum));
	ACL(aclrtFree(gradient));
	ACL(aclrtBinaryUnLoad(binary));
	finish(stream);
	return 0;
}
