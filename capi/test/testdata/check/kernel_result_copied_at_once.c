/*
 * A kernel is queued, and its result is copied with aclrtMemcpy at once: that call is ordered after no stream.
 *
 * finds: host-read-in-flight (error)
 * offence: read aclrtMemcpy in main at OFFENCE
 * other: submitted aclrtLaunchKernelWithHostArgs in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 0+64 of device 64
 */
#ifdef KERNELS
#include <ropeway/kernel.h>

void squares(int *to, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		to[i] = (int)(i * i);
}
#else
#include "kernel_file.h"

enum { COUNT = 16, SIZE = COUNT * sizeof(int) };

int main(int argc, char **argv)
{
	(void)argc;
	aclrtStream stream = start();
	aclrtBinHandle binary;
	aclrtFuncHandle squares = kernel_of(argv, "squares", &binary);
	struct {
		int *to;
		uint64_t n;
	} args = {NULL, COUNT};
	int result[COUNT];
	ACL(aclrtMalloc((void **)&args.to, SIZE, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED

	ACL(aclrtLaunchKernelWithHostArgs(squares, 1, stream, NULL, &args, sizeof args, NULL, 0)); // SUBMIT
#ifdef FIXED
	ACL(aclrtSynchronizeStream(stream));
#endif
	ACL(aclrtMemcpy(result, SIZE, args.to, SIZE, ACL_MEMCPY_DEVICE_TO_HOST)); // OFFENCE
	printf("%d\n", result[COUNT - 1]);

	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtFree(args.to));
	ACL(aclrtBinaryUnLoad(binary));
	finish(stream);
	return 0;
}
#endif
