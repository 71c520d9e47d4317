/*
 * A buffer of malloc is freed with the function for pinned memory, which refuses it, and the buffer stays.
 *
 * finds: invalid-free (error)
 * offence: called aclrtFreeHost in main at OFFENCE
 */
#include "program.h"

enum { SIZE = 4096 };

int main(void)
{
	aclrtStream stream = start();
	void *device, *staging = malloc(SIZE);
	if (!staging)
		return 1;
	memset(staging, 1, SIZE);
	ACL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemcpy(device, SIZE, staging, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
#ifndef FIXED
	aclrtFreeHost(staging); // OFFENCE
#endif
	free(staging);
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
