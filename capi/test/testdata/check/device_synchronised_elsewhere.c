/*
 * aclrtSynchronizeDevice waits for the streams of the current context, which is another one than that of the copy.
 *
 * finds: host-read-in-flight (error)
 * offence: read in main at OFFENCE
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMallocHost in main at ALLOCATED
 * bytes: 0+4 of pinned 1024
 */
#include "program.h"

enum { SIZE = 1024 };

int main(void)
{
	aclrtStream stream = start();
	aclrtContext home, other;
	int *result;
	void *device;
	ACL(aclrtGetCurrentContext(&home));
	ACL(aclrtMallocHost((void **)&result, SIZE)); // ALLOCATED
	ACL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemset(device, SIZE, 1, SIZE));

	ACL(aclrtMemcpyAsync(result, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream)); // SUBMIT
	ACL(aclrtCreateContext(&other, 0));
#ifdef FIXED
	ACL(aclrtSetCurrentContext(home));
#endif
	ACL(aclrtSynchronizeDevice());
	printf("%d\n", result[0]); // OFFENCE

	ACL(aclrtSetCurrentContext(home));
	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtDestroyContext(other));
	ACL(aclrtFreeHost(result));
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
