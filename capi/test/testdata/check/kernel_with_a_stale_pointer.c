/*
 * A workspace is replaced by a larger one, and the arguments of the kernel still have the old address.
 *
 * finds: use-after-free (error)
 * offence: submitted aclrtLaunchKernelWithHostArgs in main at OFFENCE on stream 1, task 1
 * other: freed aclrtFree in main at FREED
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 0+4096 of device 4096
 */
#include "kernel.h"

enum { SIZE = 4096 };

int main(void)
{
	aclrtStream stream = start();
	aclrtBinHandle binary;
	aclrtFuncHandle kernel = load_kernel(&binary);
	void *space, *sum, *larger;
	ACL(aclrtMalloc(&space, SIZE, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
	ACL(aclrtMalloc(&sum, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemset(sum, SIZE, 0, SIZE));
	struct add args = {sum, space, 0};
	ACL(aclrtMalloc(&larger, 4 * SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemset(larger, 4 * SIZE, 0, 4 * SIZE));
	ACL(aclrtFree(space)); // FREED
#ifdef FIXED
	args.from = larger;
#endif
	ACL(aclrtLaunchKernelWithHostArgs(kernel, 1, stream, NULL, &args, sizeof args, NULL, 0)); // OFFENCE
	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtFree(larger));
	ACL(aclrtFree(sum));
	ACL(aclrtBinaryUnLoad(binary));
	finish(stream);
	return 0;
}
