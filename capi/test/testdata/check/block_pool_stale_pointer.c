/*
 * A block is freed and its address stays in a table. The next copy to it is refused with a code nobody looks at.
 *
 * finds: use-after-free (error)
 * offence: called aclrtMemcpyAsync in main at OFFENCE
 * other: freed aclrtFree in main at FREED
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 0+2048 of device 2048
 */
#include "program.h"

enum { BLOCK = 2048 };

int main(void)
{
	aclrtStream stream = start();
	void *host, *block;
	ACL(aclrtMallocHost(&host, BLOCK));
	ACL(aclrtMalloc(&block, BLOCK, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
#ifndef FIXED
	ACL(aclrtFree(block)); // FREED
#endif
	aclrtMemcpyAsync(block, BLOCK, host, BLOCK, ACL_MEMCPY_HOST_TO_DEVICE, stream); // OFFENCE
	ACL(aclrtSynchronizeStream(stream));
#ifdef FIXED
	ACL(aclrtFree(block));
#endif
	ACL(aclrtFreeHost(host));
	finish(stream);
	return 0;
}
