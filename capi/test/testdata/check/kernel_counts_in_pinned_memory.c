/*
 * A kernel counts in pinned memory, and a copy on another stream takes the counters to the device meanwhile. On one stream, the kernel may touch them
 * between two copies.
 *
 * finds: stream-race (error)
 * offence: submitted aclrtLaunchKernelWithHostArgs in main at OFFENCE on stream 2, task 1
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMallocHost in main at ALLOCATED
 * bytes: 0+8 of pinned 4096
 */
#ifdef KERNELS
#include <ropeway/kernel.h>

void count(volatile uint64_t *counter)
{
	counter[0]++;
}
#else
#include "kernel_file.h"

enum { SIZE = 4096 };

int main(int argc, char **argv)
{
	(void)argc;
	aclrtStream copies = start(), compute;
	aclrtBinHandle binary;
	aclrtFuncHandle count = kernel_of(argv, "count", &binary);
	void *counters, *device;
	ACL(aclrtMallocHost(&counters, SIZE)); // ALLOCATED
	memset(counters, 0, SIZE);
	ACL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
#ifdef FIXED
	compute = copies;
#else
	ACL(aclrtCreateStream(&compute));
#endif
	ACL(aclrtMemcpyAsync(device, SIZE, counters, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, copies)); // SUBMIT
	ACL(aclrtLaunchKernelWithHostArgs(count, 1, compute, NULL, &counters, sizeof counters, NULL, 0)); // OFFENCE
#ifdef FIXED
	ACL(aclrtMemcpyAsync(device, SIZE, counters, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, copies));
#else
	ACL(aclrtSynchronizeStream(copies));
#endif
	ACL(aclrtSynchronizeStream(compute));
	printf("%d\n", *(int *)counters);
	ACL(aclrtFree(device));
	ACL(aclrtFreeHost(counters));
	ACL(aclrtBinaryUnLoad(binary));
	if (compute != copies)
		ACL(aclrtDestroyStream(compute));
	finish(copies);
	return 0;
}
#endif
