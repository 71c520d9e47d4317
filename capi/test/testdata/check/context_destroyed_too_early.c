/*
 * A context goes, and with it the default stream that still has a copy to do.
 *
 * finds: free-in-flight (error)
 * offence: freed aclrtDestroyContext in main at OFFENCE
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 2, task 1
 */
#include "program.h"

enum { SIZE = 512 };

int main(void)
{
	aclrtStream stream = start();
	aclrtContext home, worker;
	void *host, *device;
	ACL(aclrtGetCurrentContext(&home));
	ACL(aclrtMallocHost(&host, SIZE));
	ACL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));

	ACL(aclrtCreateContext(&worker, 0));
	ACL(aclrtMemcpyAsync(device, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, NULL)); // SUBMIT
#ifdef FIXED
	ACL(aclrtSynchronizeStream(NULL));
#endif
	ACL(aclrtDestroyContext(worker)); // OFFENCE

	ACL(aclrtSetCurrentContext(home));
	ACL(aclrtFreeHost(host));
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
