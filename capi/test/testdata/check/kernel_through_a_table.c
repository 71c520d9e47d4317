/*
 * A kernel sums up blocks whose addresses are in a table on the device. A block is loaded on another stream, and the kernel does not
 * wait for it. Its arguments have the address of the table alone.
 *
 * finds: stream-race (error)
 * offence: submitted aclrtLaunchKernelWithHostArgs in main at OFFENCE on stream 2, task 1
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 0+8192 of device 8192
 */
#ifdef KERNELS
#include <ropeway/kernel.h>

void sum(uint32_t **table, uint32_t *result, uint64_t words)
{
	for (uint64_t i = 0; i < words; i++)
		*result += table[0][i] + table[1][i];
}
#else
#include "kernel_file.h"

enum { BLOCK = 8192 };

int main(int argc, char **argv)
{
	(void)argc;
	aclrtStream upload = start(), compute;
	aclrtEvent loaded;
	aclrtBinHandle binary;
	aclrtFuncHandle sum = kernel_of(argv, "sum", &binary);
	ACL(aclrtCreateStream(&compute));
	ACL(aclrtCreateEvent(&loaded));
	void *blocks[2], *host;
	ACL(aclrtMalloc(&blocks[0], BLOCK, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMalloc(&blocks[1], BLOCK, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
	ACL(aclrtMemset(blocks[0], BLOCK, 1, BLOCK));
	ACL(aclrtMemset(blocks[1], BLOCK, 1, BLOCK));
	ACL(aclrtMallocHost(&host, BLOCK));
	memset(host, 2, BLOCK);
	struct {
		void *table, *result;
		uint64_t words;
	} args = {device_words(blocks, sizeof blocks), device_words("\0\0\0", 4), BLOCK / 4};

	ACL(aclrtMemcpyAsync(blocks[1], BLOCK, host, BLOCK, ACL_MEMCPY_HOST_TO_DEVICE, upload)); // SUBMIT
	ACL(aclrtRecordEvent(loaded, upload));
#ifdef FIXED
	ACL(aclrtStreamWaitEvent(compute, loaded));
#endif
	ACL(aclrtLaunchKernelWithHostArgs(sum, 1, compute, NULL, &args, sizeof args, NULL, 0)); // OFFENCE
	ACL(aclrtSynchronizeStream(compute));
	ACL(aclrtSynchronizeStream(upload));

	ACL(aclrtFree(args.table));
	ACL(aclrtFree(args.result));
	ACL(aclrtFree(blocks[0]));
	ACL(aclrtFree(blocks[1]));
	ACL(aclrtFreeHost(host));
	ACL(aclrtBinaryUnLoad(binary));
	ACL(aclrtDestroyEvent(loaded));
	ACL(aclrtDestroyStream(compute));
	finish(upload);
	return 0;
}
#endif
