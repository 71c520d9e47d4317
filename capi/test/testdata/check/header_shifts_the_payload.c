/*
 * A header of 16 bytes shifts what is copied off the 64-byte grid.
 *
 * finds: misaligned (warning)
 * offence: submitted aclrtMemcpyAsync in main at OFFENCE on stream 1, task 1
 * bytes: 16+1024 of pinned 2048
 */
#include "program.h"

#ifdef FIXED
enum { HEADER = 64 };
#else
enum { HEADER = 16 };
#endif
enum { PAYLOAD = 1024 };

int main(void)
{
	aclrtStream stream = start();
	char *message;
	void *device;
	ACL(aclrtMallocHost((void **)&message, 2 * PAYLOAD));
	ACL(aclrtMalloc(&device, PAYLOAD, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemcpyAsync(device, PAYLOAD, message + HEADER, PAYLOAD, ACL_MEMCPY_HOST_TO_DEVICE, stream)); // OFFENCE
	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtFreeHost(message));
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
