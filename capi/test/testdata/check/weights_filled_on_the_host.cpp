/*
 * A tensor is filled by the host, by its device address.
 *
 * finds: device-memory-on-host (error)
 * offence: written in fill at OFFENCE
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 8+4 of device 256
 */
#include "program.h"

__attribute__((noinline)) static void fill(volatile int *weights, int from, int to)
{
	for (int i = from; i < to; i++)
		weights[i] = 1; // OFFENCE
}

int main()
{
	aclrtStream stream = start();
	int *weights;
	ACL(aclrtMalloc(reinterpret_cast<void **>(&weights), 256, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
#ifdef FIXED
	int host[64];
	fill(host, 0, 64);
	ACL(aclrtMemcpy(weights, 256, host, 256, ACL_MEMCPY_HOST_TO_DEVICE));
#else
	fill(weights, 2, 64);
#endif
	ACL(aclrtFree(weights));
	finish(stream);
	return 0;
}
