/*
 * Weights go from one device to the next, and nobody has enabled the way.
 *
 * finds: peer-access (error)
 * offence: called aclrtMemcpy in main at OFFENCE
 * other: allocated aclrtMalloc in main at ALLOCATED
 */
#include "program.h"

enum { SIZE = 8192 };

int main(void)
{
	aclrtStream stream = start();
	void *mine, *other;
	ACL(aclrtSetDevice(1));
	ACL(aclrtMalloc(&other, SIZE, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
	ACL(aclrtMemset(other, SIZE, 7, SIZE));
	ACL(aclrtSetDevice(0));
	ACL(aclrtMalloc(&mine, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));

#ifdef FIXED
	ACL(aclrtDeviceEnablePeerAccess(1, 0));
#endif
	aclrtMemcpy(mine, SIZE, other, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE); // OFFENCE

	ACL(aclrtFree(mine));
	ACL(aclrtFree(other));
	ACL(aclrtResetDevice(1));
	finish(stream);
	return 0;
}
