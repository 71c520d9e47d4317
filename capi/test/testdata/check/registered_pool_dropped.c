/*
 * A registered pool is unregistered while a copy out of it is pending.
 *
 * finds: free-in-flight (error)
 * offence: freed aclrtHostUnregister in main at OFFENCE
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtHostRegister in main at ALLOCATED
 * bytes: 8192+4096 of registered 16384
 */
#include "program.h"

enum { SIZE = 16384, PART = 4096 };

int main(void)
{
	aclrtStream stream = start();
	char *pool = aligned_alloc(4096, SIZE);
	void *mapped, *device;
	memset(pool, 1, SIZE);
	ACL(aclrtHostRegister(pool, SIZE, ACL_HOST_REGISTER_MAPPED, &mapped)); // ALLOCATED
	ACL(aclrtMalloc(&device, PART, ACL_MEM_MALLOC_HUGE_FIRST));

	ACL(aclrtMemcpyAsync(device, PART, pool + 2 * PART, PART, ACL_MEMCPY_HOST_TO_DEVICE, stream)); // SUBMIT
#ifdef FIXED
	ACL(aclrtSynchronizeStream(stream));
#endif
	ACL(aclrtHostUnregister(pool)); // OFFENCE

	ACL(aclrtSynchronizeStream(stream));
	free(pool);
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
