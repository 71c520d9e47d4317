/*
 * A file is mapped over a registered window, which devices may still use. The corrected program unregisters it first.
 *
 * finds: free-in-flight (error)
 * offence: freed mmap in load at OFFENCE
 * other: allocated aclrtHostRegisterV2 in main at ALLOCATED
 * bytes: 4096+8192 of registered 16384
 */
#define _GNU_SOURCE
#include "program.h"

#include <sys/mman.h>

enum { SIZE = 16384, PART = 8192 };

static void load(char *window)
{
	void *at = mmap(window, PART, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0); // OFFENCE
	if (at != window)
		exit(1);
}

int main(void)
{
	aclrtStream stream = start();
	char *window = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *device;
	ACL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtHostRegisterV2(window, SIZE, ACL_HOST_REG_PINNED)); // ALLOCATED
	ACL(aclrtMemcpyAsync(device, SIZE, window, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
	ACL(aclrtSynchronizeStream(stream));
#ifdef FIXED
	ACL(aclrtHostUnregister(window));
	load(window + 4096);
#else
	load(window + 4096);
	ACL(aclrtHostUnregister(window));
#endif
	if (window[4096] != 0 || munmap(window, SIZE))
		return 1;
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
