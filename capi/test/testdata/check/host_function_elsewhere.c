/*
 * A host function makes the data that a copy takes up. On the copy's own stream it runs before the copy, and all is well; it
 * was launched on another.
 *
 * finds: host-write-in-flight (error)
 * offence: written in make_data at OFFENCE on stream 2, task 1
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMallocHost in main at ALLOCATED
 * bytes: 0+1 of pinned 512
 */
#include "program.h"

enum { SIZE = 512 };

static void make_data(void *data)
{
	*(volatile char *)data = 'x'; // OFFENCE
}

int main(void)
{
	aclrtStream stream = start(), other;
	void *data, *device;
	ACL(aclrtCreateStream(&other));
	ACL(aclrtMallocHost(&data, SIZE)); // ALLOCATED
	ACL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));

#ifdef FIXED
	ACL(aclrtLaunchHostFunc(stream, make_data, data));
#else
	ACL(aclrtLaunchHostFunc(other, make_data, data));
#endif
	ACL(aclrtMemcpyAsync(device, SIZE, data, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream)); // SUBMIT
	ACL(aclrtSynchronizeStream(other));
	ACL(aclrtSynchronizeStream(stream));

	ACL(aclrtDestroyStream(other));
	ACL(aclrtFreeHost(data));
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
