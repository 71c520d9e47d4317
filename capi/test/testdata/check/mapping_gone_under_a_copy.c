/*
 * A registered mapping is unmapped under a pending copy. The corrected program unmaps what it did not register first.
 *
 * finds: free-in-flight (error)
 * offence: freed munmap in main at OFFENCE
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtHostRegister in main at ALLOCATED
 * bytes: 8192+8192 of registered 32768
 */
#define _GNU_SOURCE
#include "program.h"

#include <sys/mman.h>

enum { SIZE = 32768, PART = 8192 };

int main(void)
{
	aclrtStream stream = start();
	char *cache = mmap(NULL, 2 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *mapped, *device;
	ACL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemset(device, SIZE, 1, SIZE));
	ACL(aclrtHostRegister(cache, SIZE, ACL_HOST_REGISTER_MAPPED, &mapped)); // ALLOCATED

	ACL(aclrtMemcpyAsync(cache + PART, PART, device, PART, ACL_MEMCPY_DEVICE_TO_HOST, stream)); // SUBMIT
#ifdef FIXED
	if (munmap(cache + SIZE, SIZE))
		return 1;
	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtHostUnregister(cache));
	if (munmap(cache, SIZE))
		return 1;
#else
	if (munmap(cache, 2 * SIZE)) // OFFENCE
		return 1;
	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtHostUnregister(cache));
#endif
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
