/*
 * One stream fills registered memory through its device address, another one reads it at its host address, and nothing
 * orders the two.
 *
 * finds: stream-race (error)
 * offence: submitted aclrtMemcpyAsync in main at OFFENCE on stream 2, task 1
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtHostRegister in main at ALLOCATED
 * bytes: 4096+4096 of registered 16384
 */
#include "program.h"

enum { SIZE = 16384, PART = 4096 };

int main(void)
{
	aclrtStream fill = start(), use;
	aclrtEvent filled;
	char *pages = aligned_alloc(4096, SIZE), *mapped;
	void *from, *to;
	memset(pages, 0, SIZE);
	ACL(aclrtCreateStream(&use));
	ACL(aclrtCreateEvent(&filled));
	ACL(aclrtHostRegister(pages, SIZE, ACL_HOST_REGISTER_MAPPED, (void **)&mapped)); // ALLOCATED
	ACL(aclrtMalloc(&from, PART, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMalloc(&to, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemset(from, PART, 7, PART));

	ACL(aclrtMemcpyAsync(mapped + PART, PART, from, PART, ACL_MEMCPY_DEVICE_TO_DEVICE, fill)); // SUBMIT
	ACL(aclrtRecordEvent(filled, fill));
#ifdef FIXED
	ACL(aclrtStreamWaitEvent(use, filled));
#endif
	ACL(aclrtMemcpyAsync(to, SIZE, pages, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, use)); // OFFENCE

	ACL(aclrtSynchronizeStream(fill));
	ACL(aclrtSynchronizeStream(use));
	ACL(aclrtHostUnregister(pages));
	free(pages);
	ACL(aclrtFree(from));
	ACL(aclrtFree(to));
	ACL(aclrtDestroyEvent(filled));
	ACL(aclrtDestroyStream(use));
	finish(fill);
	return 0;
}
