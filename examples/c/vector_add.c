/*
 * A kernel between copies: two vectors go up, the device adds them, and the sum comes down. All of it is queued on one stream.
 *
 *     aclrtLaunchKernelWithHostArgs(function, blocks, stream, NULL, &args, sizeof args, NULL, 0)
 *
 * The kernel is in vector_add.so, beside the program, which make builds of vector_add_kernel.c. On an NPU the same program loads what the
 * vendor's compiler made.
 */
#include <string.h>

#include "check.h"

enum { N = 1 << 16, BLOCKS = 8 };

int main(int argc, char **argv)
{
	/* The binary is beside the program. */
	char path[4096];
	const char *slash = strrchr(argv[0], '/');
	snprintf(path, sizeof path, "%.*svector_add.so", slash ? (int)(slash + 1 - argv[0]) : 0, argv[0]);
	if (argc > 1)
		snprintf(path, sizeof path, "%s", argv[1]);

	ACL(aclInit(NULL));
	ACL(aclrtSetDevice(0));
	aclrtStream stream;
	ACL(aclrtCreateStream(&stream));

	/* Loading touches no device; the code gets there with the first function that is looked up. */
	aclrtBinHandle binary;
	aclrtFuncHandle add;
	ACL(aclrtBinaryLoadFromFile(path, NULL, &binary));
	ACL(aclrtBinaryGetFunction(binary, "vector_add", &add));

	/* What the kernel gets: each 8 bytes are one argument. Addresses are those of the device. */
	struct {
		void *x, *y, *z;
		uint64_t n;
	} args = {.n = N};
	size_t size = N * sizeof(float);
	ACL(aclrtMalloc(&args.x, size, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMalloc(&args.y, size, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMalloc(&args.z, size, ACL_MEM_MALLOC_HUGE_FIRST));
	float *x, *y, *z;
	ACL(aclrtMallocHost((void **)&x, size)); /* pinned: the copies are asynchronous */
	ACL(aclrtMallocHost((void **)&y, size));
	ACL(aclrtMallocHost((void **)&z, size));
	for (int i = 0; i < N; i++) {
		x[i] = (float)i;
		y[i] = (float)(2 * i);
	}

	/* Nothing here waits: the stream keeps the order. The arguments are copied by the call, args may go. */
	ACL(aclrtMemcpyAsync(args.x, size, x, size, ACL_MEMCPY_HOST_TO_DEVICE, stream));
	ACL(aclrtMemcpyAsync(args.y, size, y, size, ACL_MEMCPY_HOST_TO_DEVICE, stream));
	ACL(aclrtLaunchKernelWithHostArgs(add, BLOCKS, stream, NULL, &args, sizeof args, NULL, 0));
	ACL(aclrtMemcpyAsync(z, size, args.z, size, ACL_MEMCPY_DEVICE_TO_HOST, stream));
	printf("Two copies, a kernel of %d blocks and a copy back are queued.\n", BLOCKS);

	/* A kernel that failed says so here. */
	ACL(aclrtSynchronizeStream(stream));
	for (int i = 0; i < N; i++)
		expect(z[i] == (float)(3 * i), "a sum is not what it should be");
	printf("All %d sums are right.\n", N);

	ACL(aclrtFreeHost(z));
	ACL(aclrtFreeHost(y));
	ACL(aclrtFreeHost(x));
	ACL(aclrtFree(args.z));
	ACL(aclrtFree(args.y));
	ACL(aclrtFree(args.x));
	ACL(aclrtBinaryUnLoad(binary));
	ACL(aclrtDestroyStream(stream));
	ACL(aclrtResetDevice(0));
	ACL(aclFinalize());
	return 0;
}
