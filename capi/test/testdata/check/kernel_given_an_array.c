/*
 * A kernel is given the address of an array of the program, where it needs one of device memory.
 *
 * finds: wrong-direction (warning)
 * offence: submitted aclrtLaunchKernelWithHostArgs in main at OFFENCE on stream 1, task 1
 */
#ifdef KERNELS
#include <ropeway/kernel.h>

void scale(float *x, uint64_t n)
{
	for (uint64_t i = ropeway_block_idx(); i < n; i += ropeway_block_num())
		x[i] *= 2;
}
#else
#include "kernel_file.h"

enum { N = 1000 };

static float x[N];

int main(int argc, char **argv)
{
	(void)argc;
	aclrtStream stream = start();
	aclrtBinHandle binary;
	aclrtFuncHandle scale = kernel_of(argv, "scale", &binary);
	struct {
		void *x;
		uint64_t n;
	} args = {.x = x, .n = N};
#ifdef FIXED
	ACL(aclrtMalloc(&args.x, sizeof x, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemcpy(args.x, sizeof x, x, sizeof x, ACL_MEMCPY_HOST_TO_DEVICE));
#endif
	ACL(aclrtLaunchKernelWithHostArgs(scale, 1, stream, NULL, &args, sizeof args, NULL, 0)); // OFFENCE
	ACL(aclrtSynchronizeStream(stream));
#ifdef FIXED
	ACL(aclrtFree(args.x));
#endif
	ACL(aclrtBinaryUnLoad(binary));
	finish(stream);
	return 0;
}
#endif
