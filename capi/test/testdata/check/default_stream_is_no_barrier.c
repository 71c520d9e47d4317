/*
 * The default stream is a stream like others: it does not wait for them, and they do not wait for it.
 *
 * finds: stream-race (error)
 * offence: submitted aclrtMemcpyAsync in main at OFFENCE on stream 1, task 1
 * other: submitted aclrtMemsetAsync in main at SUBMIT on stream 0, task 1
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 512+512 of device 1024
 */
#include "program.h"

enum { SIZE = 1024, HALF = SIZE / 2 };

int main(void)
{
	aclrtStream stream = start();
	char *device;
	void *host;
	ACL(aclrtMallocHost(&host, HALF));
	ACL(aclrtMalloc((void **)&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
	ACL(aclrtMemset(device, SIZE, 0, SIZE));

	ACL(aclrtMemsetAsync(device, SIZE, 1, SIZE, NULL)); // SUBMIT
#ifdef FIXED
	ACL(aclrtSynchronizeStream(NULL));
#endif
	ACL(aclrtMemcpyAsync(host, HALF, device + HALF, HALF, ACL_MEMCPY_DEVICE_TO_HOST, stream)); // OFFENCE

	ACL(aclrtSynchronizeDevice());
	ACL(aclrtFreeHost(host));
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
