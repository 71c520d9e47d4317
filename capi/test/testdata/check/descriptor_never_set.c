/*
 * A descriptor is allocated and used, and nobody wrote it.
 *
 * finds: unset-descriptor (error)
 * offence: submitted aclrtMemcpyAsyncWithDesc in main at OFFENCE on stream 1, task 1
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 0+32 of device 32
 */
#include "program.h"

enum { SIZE = 256 };

int main(void)
{
	const aclrtMemcpyKind kind = ACL_MEMCPY_INNER_DEVICE_TO_DEVICE;
	aclrtStream stream = start();
	void *from, *to, *ticket;
	size_t size;
	ACL(aclrtGetMemcpyDescSize(kind, &size));
	ACL(aclrtMalloc(&ticket, size, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
	ACL(aclrtMalloc(&from, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMalloc(&to, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemset(from, SIZE, 1, SIZE));
#ifdef FIXED
	ACL(aclrtSetMemcpyDesc(ticket, kind, from, to, SIZE, NULL));
#endif
	ACL(aclrtMemcpyAsyncWithDesc(ticket, kind, stream)); // OFFENCE
	aclrtSynchronizeStream(stream); // a copy with such a descriptor fails while it runs

	ACL(aclrtFree(from));
	ACL(aclrtFree(to));
	ACL(aclrtFree(ticket));
	finish(stream);
	return 0;
}
