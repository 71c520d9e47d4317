/*
 * A table on the device has the addresses of blocks. One of them is freed, the table keeps its address, and a kernel follows it. The
 * arguments of the kernel have the address of the table alone.
 *
 * finds: use-after-free (error)
 * offence: submitted aclrtLaunchKernelWithHostArgs in main at OFFENCE on stream 1, task 1
 * other: freed aclrtFree in main at FREED
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 0+8192 of device 8192
 */
#ifdef KERNELS
#include <ropeway/kernel.h>

void sum(uint32_t **table, uint32_t *result, uint64_t blocks)
{
	for (uint64_t i = 0; i < blocks; i++)
		*result += table[i][0];
}
#else
#include "kernel_file.h"

enum { BLOCK = 8192, BLOCKS = 2 };

int main(int argc, char **argv)
{
	(void)argc;
	aclrtStream stream = start();
	aclrtBinHandle binary;
	aclrtFuncHandle sum = kernel_of(argv, "sum", &binary);
	void *blocks[BLOCKS];
	for (int i = 0; i < BLOCKS; i++) {
		ACL(aclrtMalloc(&blocks[i], BLOCK, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
		ACL(aclrtMemset(blocks[i], BLOCK, i, BLOCK));
	}
	struct {
		void *table, *result;
		uint64_t blocks;
	} args = {device_words(blocks, sizeof blocks), device_words("\0\0\0", 4), BLOCKS};

	ACL(aclrtFree(blocks[1])); // FREED
#ifdef FIXED
	args.blocks--;
#endif
	ACL(aclrtLaunchKernelWithHostArgs(sum, 1, stream, NULL, &args, sizeof args, NULL, 0)); // OFFENCE
	aclError code = aclrtSynchronizeStream(stream);
	if (code != ACL_SUCCESS)
		fprintf(stderr, "the sum is not known: %d\n", (int)code);

	ACL(aclrtFree(args.table));
	ACL(aclrtFree(args.result));
	ACL(aclrtFree(blocks[0]));
	ACL(aclrtBinaryUnLoad(binary));
	finish(stream);
	return 0;
}
#endif
