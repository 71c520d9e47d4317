/*
 * A program with a crash reporter of its own, set after the library's. An access in flight is not its business.
 *
 * finds: host-write-in-flight (error)
 * offence: written in main at OFFENCE
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMallocHost in main at ALLOCATED
 * bytes: 512+4 of pinned 1024
 */
#include <signal.h>
#include <unistd.h>

#include "program.h"

enum { SIZE = 1024 };

static void crashed(int number)
{
	_exit(100 + number);
}

int main(void)
{
	aclrtStream stream = start();
	struct sigaction action = {.sa_handler = crashed, .sa_flags = SA_ONSTACK};
	volatile int *staging;
	void *device;
	sigaction(SIGSEGV, &action, NULL);
	ACL(aclrtMallocHost((void **)&staging, SIZE)); // ALLOCATED
	ACL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));

	ACL(aclrtMemcpyAsync(device, SIZE, (void *)staging, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream)); // SUBMIT
#ifdef FIXED
	ACL(aclrtSynchronizeStream(stream));
#endif
	staging[128] = 7; // OFFENCE

	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtFreeHost((void *)staging));
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
