/*
 * main returns while the last copy to the device is pending; nobody ever asked whether it arrived.
 *
 * finds: unsynchronised-exit (error)
 * offence: ended
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 0, task 1
 * options: --no-rule leak
 */
#include "program.h"

enum { SIZE = 4096 };

int main(void)
{
	void *host, *device;
	ACL(aclrtSetDevice(0));
	ACL(aclrtMallocHost(&host, SIZE));
	ACL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemcpyAsync(device, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, NULL)); // SUBMIT
#ifdef FIXED
	ACL(aclrtSynchronizeStream(NULL));
#endif
	return 0;
}
