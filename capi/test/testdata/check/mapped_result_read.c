/*
 * A stream writes through the device address of registered memory, and the host reads it at its own address too early.
 *
 * finds: host-read-in-flight (error)
 * offence: read in main at OFFENCE
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtHostRegister in main at ALLOCATED
 * bytes: 512+1 of registered 4096
 */
#include "program.h"

enum { SIZE = 4096 };

int main(void)
{
	aclrtStream stream = start();
	unsigned char *result = aligned_alloc(4096, SIZE);
	void *mapped, *device;
	memset(result, 0, SIZE);
	ACL(aclrtHostRegister(result, SIZE, ACL_HOST_REGISTER_MAPPED, &mapped)); // ALLOCATED
	ACL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemset(device, SIZE, 7, SIZE));

	ACL(aclrtMemcpyAsync((char *)mapped + 512, 1024, device, 1024, ACL_MEMCPY_DEVICE_TO_DEVICE, stream)); // SUBMIT
	unsigned beside = result[511] + result[1536];
#ifdef FIXED
	ACL(aclrtSynchronizeStream(stream));
#endif
	unsigned value = result[512]; // OFFENCE
	printf("%u %u\n", beside, value);

	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtHostUnregister(result));
	free(result);
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
