/*
 * A kernel adds a bias that was never uploaded. It does not say what it reads.
 *
 * finds: uninitialised-read (warning)
 * offence: submitted aclrtLaunchKernelWithHostArgs in main at OFFENCE on stream 1, task 1
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 0+4000 of device 4000
 */
#ifdef KERNELS
#include <ropeway/kernel.h>

void add_bias(float *x, const float *bias, uint64_t n)
{
	for (uint64_t i = ropeway_block_idx(); i < n; i += ropeway_block_num())
		x[i] += bias[i];
}
#else
#include "kernel_file.h"

enum { N = 1000, SIZE = N * sizeof(float) };

int main(int argc, char **argv)
{
	(void)argc;
	aclrtStream stream = start();
	aclrtBinHandle binary;
	aclrtFuncHandle add = kernel_of(argv, "add_bias", &binary);
	struct {
		void *x, *bias;
		uint64_t n;
	} args = {.n = N};
	ACL(aclrtMalloc(&args.x, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMalloc(&args.bias, SIZE, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
	ACL(aclrtMemset(args.x, SIZE, 0, SIZE));
#ifdef FIXED
	ACL(aclrtMemset(args.bias, SIZE, 0, SIZE));
#endif
	ACL(aclrtLaunchKernelWithHostArgs(add, 4, stream, NULL, &args, sizeof args, NULL, 0)); // OFFENCE
	ACL(aclrtSynchronizeStream(stream));

	ACL(aclrtFree(args.x));
	ACL(aclrtFree(args.bias));
	ACL(aclrtBinaryUnLoad(binary));
	finish(stream);
	return 0;
}
#endif
