/*
 * A stream reads registered memory through its device address, and the host fills it again for the next step too early.
 *
 * finds: host-write-in-flight (error)
 * offence: written in refill at OFFENCE
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtHostRegisterV2 in main at ALLOCATED
 * bytes: 0+1 of registered 8192
 */
#include "program.h"

static const size_t kSize = 8192;

static void refill(volatile unsigned char *ids)
{
	ids[0] = 2; // OFFENCE
}

int main()
{
	aclrtStream stream = start();
	unsigned char *ids = static_cast<unsigned char *>(aligned_alloc(4096, kSize));
	void *mapped, *device;
	memset(ids, 1, kSize);
	ACL(aclrtHostRegisterV2(ids, kSize, ACL_HOST_REG_MAPPED)); // ALLOCATED
	ACL(aclrtHostGetDevicePointer(ids, &mapped, 0));
	ACL(aclrtMalloc(&device, kSize, ACL_MEM_MALLOC_HUGE_FIRST));

	ACL(aclrtMemcpyAsync(device, kSize, mapped, kSize, ACL_MEMCPY_DEVICE_TO_DEVICE, stream)); // SUBMIT
	unsigned sum = ids[0] + ids[kSize - 1]; // reading a source is fine
#ifdef FIXED
	ACL(aclrtSynchronizeStream(stream));
#endif
	refill(ids);

	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtHostUnregister(ids));
	free(ids);
	ACL(aclrtFree(device));
	finish(stream);
	return sum == 2 ? 0 : 1;
}
