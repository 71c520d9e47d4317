/*
 * A kernel writes its input to a file, by a system call, and the input was never uploaded.
 *
 * finds: uninitialised-read (warning)
 * offence: submitted aclrtLaunchKernelWithHostArgs in main at OFFENCE on stream 1, task 1
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 0+10000 of device 10000
 */
#ifdef KERNELS
#include <ropeway/kernel.h>

#include <stdlib.h>
#include <unistd.h>

void dump(const char *input, uint64_t n, uint64_t file)
{
	if (write((int)file, input, n) != (ssize_t)n)
		abort();
}
#else
#include "kernel_file.h"

enum { SIZE = 10000 };

int main(int argc, char **argv)
{
	(void)argc;
	aclrtStream stream = start();
	aclrtBinHandle binary;
	aclrtFuncHandle dump = kernel_of(argv, "dump", &binary);
	struct {
		void *input;
		uint64_t n, file;
	} args = {.n = SIZE, .file = (uint64_t)fileno(tmpfile())};
	ACL(aclrtMalloc(&args.input, SIZE, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
#ifdef FIXED
	ACL(aclrtMemset(args.input, SIZE, 0, SIZE));
#endif
	ACL(aclrtLaunchKernelWithHostArgs(dump, 1, stream, NULL, &args, sizeof args, NULL, 0)); // OFFENCE
	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtFree(args.input));
	ACL(aclrtBinaryUnLoad(binary));
	finish(stream);
	return 0;
}
#endif
