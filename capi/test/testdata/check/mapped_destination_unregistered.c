/*
 * A result is copied to registered memory by its device address, after the memory was unregistered. The program gives up
 * waiting for it.
 *
 * finds: use-after-free (error)
 * offence: called aclrtMemcpyAsync in main at OFFENCE
 * other: allocated aclrtHostRegister in main at ALLOCATED
 * other: freed aclrtHostUnregister in main at FREED
 * bytes: 0+8192 of registered 8192
 */
#include "program.h"

enum { SIZE = 8192, PAGE = 4096 };

int main(void)
{
	aclrtStream stream = start();
	void *host = aligned_alloc(PAGE, SIZE), *result, *mapped;
	if (!host)
		return 1;
	ACL(aclrtMalloc(&result, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemset(result, SIZE, 1, SIZE));
	ACL(aclrtHostRegister(host, SIZE, ACL_HOST_REGISTER_MAPPED, &mapped)); // ALLOCATED

#ifndef FIXED
	ACL(aclrtHostUnregister(host)); // FREED
#endif
	ACL(aclrtMemcpyAsync(mapped, SIZE, result, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream)); // OFFENCE
#ifdef FIXED
	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtHostUnregister(host));
#else
	ACL(aclrtStreamAbort(stream));
#endif

	free(host);
	ACL(aclrtFree(result));
	finish(stream);
	return 0;
}
