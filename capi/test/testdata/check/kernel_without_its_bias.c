/*
 * A kernel follows a null pointer, and the program does not look at what the synchronisation returned.
 *
 * finds: api-error (warning)
 * offence: called aclrtSynchronizeStream in main at OFFENCE
 * other: submitted aclrtLaunchKernelWithHostArgs in main at SUBMIT on stream 1, task 1
 */
#ifdef KERNELS
#include <ropeway/kernel.h>

void add_bias(float *x, const float *bias, uint64_t n)
{
#ifdef FIXED
	if (!bias)
		return;
#endif
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
	ACL(aclrtMemset(args.x, SIZE, 0, SIZE));
	ACL(aclrtLaunchKernelWithHostArgs(add, 1, stream, NULL, &args, sizeof args, NULL, 0)); // SUBMIT
	aclrtSynchronizeStream(stream); // OFFENCE
	ACL(aclrtFree(args.x));
	ACL(aclrtBinaryUnLoad(binary));
	finish(stream);
	return 0;
}
#endif
