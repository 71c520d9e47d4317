/*
 * Adds two vectors with a kernel that is loaded from a file: PTX, a cubin or a fatbin with ROPEWAY_DRIVER=cuda, a shared object
 * without. Nothing else in the program depends on which of them it is.
 *
 *	vector_add FILE
 */
#include <stdint.h>

#include "check.h"

enum { N = 1 << 20, BLOCKS = 64 };

int main(int argc, char **argv)
{
	expect(argc == 2, "the number of arguments; this program takes the file with the kernel");
	ACL(aclInit(NULL));
	ACL(aclrtSetDevice(0));
	aclrtStream stream;
	ACL(aclrtCreateStream(&stream));

	aclrtBinHandle binary;
	aclrtFuncHandle add;
	ACL(aclrtBinaryLoadFromFile(argv[1], NULL, &binary));
	ACL(aclrtBinaryGetFunction(binary, "add", &add));

	float *host;
	struct { float *x, *y, *z; uint64_t n; } args = {.n = N}; /* as the kernel has its parameters */
	ACL(aclrtMallocHost((void **)&host, 3 * N * sizeof *host));
	ACL(aclrtMalloc((void **)&args.x, N * sizeof *host, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMalloc((void **)&args.y, N * sizeof *host, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMalloc((void **)&args.z, N * sizeof *host, ACL_MEM_MALLOC_HUGE_FIRST));
	float *x = host, *y = host + N, *z = host + 2 * N;
	for (int i = 0; i < N; i++)
		x[i] = (float)i, y[i] = (float)(2 * i);

	/* all of this is queued, and runs in this order */
	ACL(aclrtMemcpyAsync(args.x, N * sizeof *x, x, N * sizeof *x, ACL_MEMCPY_HOST_TO_DEVICE, stream));
	ACL(aclrtMemcpyAsync(args.y, N * sizeof *y, y, N * sizeof *y, ACL_MEMCPY_HOST_TO_DEVICE, stream));
	ACL(aclrtLaunchKernelWithHostArgs(add, BLOCKS, stream, NULL, &args, sizeof args, NULL, 0));
	ACL(aclrtMemcpyAsync(z, N * sizeof *z, args.z, N * sizeof *z, ACL_MEMCPY_DEVICE_TO_HOST, stream));
	ACL(aclrtSynchronizeStream(stream));

	for (int i = 0; i < N; i++)
		expect(z[i] == (float)(3 * i), "a sum");
	printf("added %d numbers on %d blocks\n", N, BLOCKS);

	ACL(aclrtFree(args.x));
	ACL(aclrtFree(args.y));
	ACL(aclrtFree(args.z));
	ACL(aclrtFreeHost(host));
	ACL(aclrtBinaryUnLoad(binary));
	ACL(aclrtDestroyStream(stream));
	ACL(aclrtResetDevice(0));
	ACL(aclFinalize());
	return 0;
}
