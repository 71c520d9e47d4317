/*
 * A fill takes the padding along that was never allocated.
 *
 * finds: out-of-bounds (error)
 * offence: called aclrtMemsetAsync in main at OFFENCE
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 0+4160 of device 4096
 */
#include "program.h"

enum { SIZE = 4096, EXTRA = 64 };

int main(void)
{
	aclrtStream stream = start();
	void *device;
	ACL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
#ifdef FIXED
	size_t bytes = SIZE;
#else
	size_t bytes = SIZE + EXTRA;
#endif
	aclrtMemsetAsync(device, bytes, 0, bytes, stream); // OFFENCE
	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
