/*
 * A kernel says what it touches, but for the counters that were added to it later.
 *
 * finds: out-of-bounds (warning)
 * offence: submitted aclrtLaunchKernelWithHostArgs in main at OFFENCE on stream 1, task 1
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 0+64 of device 64
 */
#ifdef KERNELS
#include <ropeway/kernel.h>

void scale(float *x, uint64_t n, uint64_t *done)
{
	ROPEWAY_READS(x, n * sizeof *x);
	ROPEWAY_WRITES(x, n * sizeof *x);
#ifdef FIXED
	ROPEWAY_WRITES(done, ropeway_block_num() * sizeof *done);
#endif
	for (uint64_t i = ropeway_block_idx(); i < n; i += ropeway_block_num())
		x[i] *= 2;
	done[ropeway_block_idx()] = n;
}
#else
#include "kernel_file.h"

enum { N = 4096, BLOCKS = 8 };

int main(int argc, char **argv)
{
	(void)argc;
	aclrtStream stream = start();
	aclrtBinHandle binary;
	aclrtFuncHandle scale = kernel_of(argv, "scale", &binary);
	struct {
		void *x;
		uint64_t n;
		void *done;
	} args = {.n = N};
	ACL(aclrtMalloc(&args.x, N * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMalloc(&args.done, BLOCKS * sizeof(uint64_t), ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
	ACL(aclrtMemset(args.x, N * sizeof(float), 0, N * sizeof(float)));
	ACL(aclrtLaunchKernelWithHostArgs(scale, BLOCKS, stream, NULL, &args, sizeof args, NULL, 0)); // OFFENCE
	ACL(aclrtSynchronizeStream(stream));

	ACL(aclrtFree(args.x));
	ACL(aclrtFree(args.done));
	ACL(aclrtBinaryUnLoad(binary));
	finish(stream);
	return 0;
}
#endif
