/*
 * A stream changes a copy descriptor while another may be reading it.
 *
 * finds: stream-race (error)
 * offence: submitted aclrtMemcpyAsyncWithDesc in main at OFFENCE on stream 1, task 1
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 2, task 1
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 12+20 of device 32
 */
#include "program.h"

enum { SIZE = 256 };

int main(void)
{
	const aclrtMemcpyKind kind = ACL_MEMCPY_INNER_DEVICE_TO_DEVICE;
	aclrtStream stream = start(), other;
	void *red, *blue, *target, *ticket, *change;
	size_t size;
	ACL(aclrtCreateStream(&other));
	ACL(aclrtGetMemcpyDescSize(kind, &size));
	ACL(aclrtMalloc(&ticket, size, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
	ACL(aclrtMalloc(&change, size, ACL_MEM_MALLOC_HUGE_FIRST));
	void **buffers[] = {&red, &blue, &target};
	for (int i = 0; i < 3; i++) {
		ACL(aclrtMalloc(buffers[i], SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
		ACL(aclrtMemset(*buffers[i], SIZE, i, SIZE));
	}
	ACL(aclrtSetMemcpyDesc(ticket, kind, red, target, SIZE, NULL));
	ACL(aclrtSetMemcpyDesc(change, kind, blue, target, SIZE, NULL));

	ACL(aclrtMemcpyAsync(ticket, size, change, size, ACL_MEMCPY_DEVICE_TO_DEVICE, other)); // SUBMIT
#ifdef FIXED
	ACL(aclrtSynchronizeStream(other));
#endif
	ACL(aclrtMemcpyAsyncWithDesc(ticket, kind, stream)); // OFFENCE
	ACL(aclrtSynchronizeDevice());

	for (int i = 0; i < 3; i++)
		ACL(aclrtFree(*buffers[i]));
	ACL(aclrtFree(ticket));
	ACL(aclrtFree(change));
	ACL(aclrtDestroyStream(other));
	finish(stream);
	return 0;
}
