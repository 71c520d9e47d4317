/*
 * An early return keeps a block of device memory.
 *
 * finds: leak (error)
 * offence: allocated aclrtMalloc in transfer at ALLOCATED
 * bytes: 0+4096 of device 4096
 */
#include "program.h"

enum { BLOCK = 4096 };

static int transfer(int blocks)
{
	void *block;
	ACL(aclrtMalloc(&block, BLOCK, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
#ifndef FIXED
	if (blocks == 0)
		return 0;
#endif
	ACL(aclrtMemset(block, BLOCK, blocks, BLOCK));
	ACL(aclrtFree(block));
	return blocks;
}

int main(void)
{
	aclrtStream stream = start();
	transfer(1);
	transfer(0);
	finish(stream);
	return 0;
}
