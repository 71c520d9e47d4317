/*
 * A notify lets the download begin. The program synchronises the stream that records the notify, which says nothing of the one that
 * waits for it.
 *
 * finds: host-read-in-flight (error)
 * offence: read in main at OFFENCE
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 2, task 2
 * other: allocated aclrtMallocHost in main at ALLOCATED
 * bytes: 0+1 of pinned 4096
 */
#include "program.h"

enum { SIZE = 4096, FOR_EVER = 0 };

int main(void)
{
	aclrtStream compute = start(), download;
	aclrtNotify ready;
	unsigned char *result;
	void *device;
	ACL(aclrtCreateStream(&download));
	ACL(aclrtCreateNotify(&ready, ACL_NOTIFY_DEFAULT));
	ACL(aclrtMallocHost((void **)&result, SIZE)); // ALLOCATED
	ACL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));

	ACL(aclrtWaitAndResetNotify(ready, download, FOR_EVER));
	ACL(aclrtMemcpyAsync(result, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, download)); // SUBMIT
	ACL(aclrtMemsetAsync(device, SIZE, 7, SIZE, compute));
	ACL(aclrtRecordNotify(ready, compute));
	ACL(aclrtSynchronizeStream(compute));
#ifdef FIXED
	ACL(aclrtSynchronizeStream(download));
#endif
	printf("%d\n", result[0]); // OFFENCE

	ACL(aclrtSynchronizeStream(download));
	ACL(aclrtDestroyNotify(ready));
	ACL(aclrtDestroyStream(download));
	ACL(aclrtFreeHost(result));
	ACL(aclrtFree(device));
	finish(compute);
	return 0;
}
