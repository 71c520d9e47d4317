/*
 * A pinned buffer goes up with the kind that means down, as one of the vendor's samples does. The library corrects it here; other
 * products do not.
 *
 * finds: wrong-direction (error)
 * offence: called aclrtMemcpyAsync in main at OFFENCE
 */
#include "program.h"

enum { SIZE = 1024 };

int main(void)
{
	aclrtStream stream = start();
	void *host, *device;
	ACL(aclrtMallocHost(&host, SIZE));
	ACL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
#ifdef FIXED
	aclrtMemcpyKind kind = ACL_MEMCPY_HOST_TO_DEVICE;
#else
	aclrtMemcpyKind kind = ACL_MEMCPY_DEVICE_TO_HOST;
#endif
	ACL(aclrtMemcpyAsync(device, SIZE, host, SIZE, kind, stream)); // OFFENCE
	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtFreeHost(host));
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
