/*
 * The arguments of a kernel are in device memory, and that is freed when the launch has returned: the kernel reads them
 * when it runs.
 *
 * finds: free-in-flight (error)
 * offence: freed aclrtFree in main at OFFENCE
 * other: submitted aclrtLaunchKernel in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 0+16 of device 16
 */
#ifdef KERNELS
#include <ropeway/kernel.h>

void clear(uint32_t *x, uint64_t n)
{
	for (uint64_t i = ropeway_block_idx(); i < n; i += ropeway_block_num())
		x[i] = 0;
}
#else
#include "kernel_file.h"

enum { N = 1000, SIZE = N * sizeof(uint32_t) };

int main(int argc, char **argv)
{
	(void)argc;
	aclrtStream stream = start();
	aclrtBinHandle binary;
	aclrtFuncHandle clear = kernel_of(argv, "clear", &binary);
	struct {
		void *x;
		uint64_t n;
	} args = {.n = N};
	void *there;
	ACL(aclrtMalloc(&args.x, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMalloc(&there, sizeof args, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
	ACL(aclrtMemcpy(there, sizeof args, &args, sizeof args, ACL_MEMCPY_HOST_TO_DEVICE));
	ACL(aclrtLaunchKernel(clear, 1, there, sizeof args, stream)); // SUBMIT
#ifdef FIXED
	ACL(aclrtSynchronizeStream(stream));
#endif
	ACL(aclrtFree(there)); // OFFENCE
	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtFree(args.x));
	ACL(aclrtBinaryUnLoad(binary));
	finish(stream);
	return 0;
}
#endif
