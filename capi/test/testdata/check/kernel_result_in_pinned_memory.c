/*
 * A kernel that says nothing writes into pinned memory, and the host reads that without waiting.
 *
 * finds: host-read-in-flight (error)
 * offence: read in main at OFFENCE
 * other: submitted aclrtLaunchKernelWithHostArgs in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMallocHost in main at ALLOCATED
 * bytes: 0+? of pinned 8
 */
#ifdef KERNELS
#include <ropeway/kernel.h>

void total(uint64_t *to, const uint8_t *from, uint64_t n)
{
	uint64_t sum = 0;
	for (uint64_t i = 0; i < n; i++)
		sum += from[i];
	*to = sum;
}
#else
#include "kernel_file.h"

enum { SIZE = 4096 };

int main(int argc, char **argv)
{
	(void)argc;
	aclrtStream stream = start();
	aclrtBinHandle binary;
	aclrtFuncHandle total = kernel_of(argv, "total", &binary);
	struct {
		uint64_t *to;
		void *from;
		uint64_t n;
	} args = {NULL, NULL, SIZE};
	ACL(aclrtMallocHost((void **)&args.to, sizeof *args.to)); // ALLOCATED
	ACL(aclrtMalloc(&args.from, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemset(args.from, SIZE, 2, SIZE));

	ACL(aclrtLaunchKernelWithHostArgs(total, 1, stream, NULL, &args, sizeof args, NULL, 0)); // SUBMIT
#ifdef FIXED
	ACL(aclrtSynchronizeStream(stream));
#endif
	printf("%d\n", (int)*args.to); // OFFENCE

	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtFree(args.from));
	ACL(aclrtFreeHost(args.to));
	ACL(aclrtBinaryUnLoad(binary));
	finish(stream);
	return 0;
}
#endif
