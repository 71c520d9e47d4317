/*
 * A registered staging buffer grows: realloc may move it, but not its registration. No copy is pending.
 *
 * finds: free-in-flight (error)
 * offence: freed realloc in grow at OFFENCE
 * other: allocated aclrtHostRegister in main at ALLOCATED
 * bytes: 0+16384 of registered 16384
 */
#define _GNU_SOURCE
#include "program.h"

enum { SIZE = 16384 };

static char *grow(char *staging)
{
#ifdef FIXED
	ACL(aclrtHostUnregister(staging));
#endif
	return realloc(staging, 64 * SIZE); // OFFENCE
}

int main(void)
{
	aclrtStream stream = start();
	char *volatile staging = aligned_alloc(4096, SIZE); /* volatile: compilers see this mistake, too */
	char *beside = malloc(SIZE);
	void *mapped, *device;
	memset(staging, 1, SIZE);
	ACL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtHostRegister(staging, SIZE, ACL_HOST_REGISTER_MAPPED, &mapped)); // ALLOCATED
	ACL(aclrtMemcpyAsync(device, SIZE, staging, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
	beside = realloc(beside, 64 * SIZE); /* another block may move at any time */
	ACL(aclrtSynchronizeStream(stream));

	char *larger = grow(staging);
	for (int i = 0; i < SIZE; i++)
		if (larger[i] != 1)
			return 1;
#ifndef FIXED
	ACL(aclrtHostUnregister(staging));
#endif
	free(larger);
	free(beside);
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
