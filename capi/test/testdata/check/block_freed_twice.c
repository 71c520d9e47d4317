/*
 * Two tables own one block, and both free it.
 *
 * finds: double-free (error)
 * offence: called aclrtFree in release at OFFENCE
 * other: freed aclrtFree in release at OFFENCE
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 0+256 of device 256
 */
#include "program.h"

static void release(void **block)
{
	aclrtFree(*block); // OFFENCE
#ifdef FIXED
	*block = NULL;
#endif
}

int main(void)
{
	aclrtStream stream = start();
	void *block;
	ACL(aclrtMalloc(&block, 256, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
	release(&block);
	if (block)
		release(&block);
	finish(stream);
	return 0;
}
