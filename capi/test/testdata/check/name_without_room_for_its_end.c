/*
 * A name fills its pinned buffer to the last byte, and the zero after it is one too many. The copy finds it.
 *
 * finds: host-out-of-bounds (error)
 * offence: found aclrtMemcpyAsync in main at OFFENCE on stream 1, task 1
 * other: allocated aclrtMallocHost in main at ALLOCATED
 * bytes: 9+1 of pinned 9
 */
#include "program.h"

static const char name[] = "lm_head.w";

int main(void)
{
	aclrtStream stream = start();
	size_t size = strlen(name);
	char *host;
	void *device;
#ifdef FIXED
	size++;
#endif
	ACL(aclrtMallocHost((void **)&host, size)); // ALLOCATED
	ACL(aclrtMalloc(&device, 64, ACL_MEM_MALLOC_HUGE_FIRST));
	strcpy(host, name);
	ACL(aclrtMemcpyAsync(device, 64, host, size, ACL_MEMCPY_HOST_TO_DEVICE, stream)); // OFFENCE
	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtFree(device));
	ACL(aclrtFreeHost(host));
	finish(stream);
	return 0;
}
