/*
 * A buffer has two halves: a kernel works on one of them while a copy fills the other. The kernel goes through all of it. Corrected, the two
 * have nothing but the allocation in common, and run side by side.
 *
 * finds: stream-race (error)
 * offence: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 1
 * other: submitted aclrtLaunchKernelWithHostArgs in main at OFFENCE on stream 2, task 1
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 65536+65536 of device 131072
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

enum { HALF = 64 << 10 };

int main(int argc, char **argv)
{
	(void)argc;
	aclrtStream upload = start(), compute;
	aclrtBinHandle binary;
	aclrtFuncHandle scale = kernel_of(argv, "scale", &binary);
	ACL(aclrtCreateStream(&compute));
	struct {
		char *x;
		uint64_t n;
	} args = {.n = 2 * HALF / sizeof(float)};
	void *host;
	ACL(aclrtMalloc((void **)&args.x, 2 * HALF, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
	ACL(aclrtMemset(args.x, 2 * HALF, 0, 2 * HALF));
	ACL(aclrtMallocHost(&host, HALF));
	memset(host, 0, HALF);
#ifdef FIXED
	args.n /= 2;
#endif
	ACL(aclrtMemcpyAsync(args.x + HALF, HALF, host, HALF, ACL_MEMCPY_HOST_TO_DEVICE, upload)); // SUBMIT
	ACL(aclrtLaunchKernelWithHostArgs(scale, 4, compute, NULL, &args, sizeof args, NULL, 0)); // OFFENCE
	ACL(aclrtSynchronizeStream(compute));
	ACL(aclrtSynchronizeStream(upload));

	ACL(aclrtFree(args.x));
	ACL(aclrtFreeHost(host));
	ACL(aclrtBinaryUnLoad(binary));
	ACL(aclrtDestroyStream(compute));
	finish(upload);
	return 0;
}
#endif
