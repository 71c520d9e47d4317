/*
 * The sum of a result is taken where the result is: the pointer comes from aclrtMalloc, and the host cannot follow it.
 *
 * finds: device-memory-on-host (error)
 * offence: read in sum at OFFENCE
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 0+4 of device 4096
 */
#include "program.h"

enum { N = 1024 };

static float sum(const float *values)
{
	float total = 0;
	for (int i = 0; i < N; i++)
		total += values[i]; // OFFENCE
	return total;
}

int main(void)
{
	aclrtStream stream = start();
	float *result, *host;
	ACL(aclrtMallocHost((void **)&host, N * sizeof *host));
	ACL(aclrtMalloc((void **)&result, N * sizeof *result, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
	ACL(aclrtMemset(result, N * sizeof *result, 0, N * sizeof *result));
#ifdef FIXED
	ACL(aclrtMemcpy(host, N * sizeof *host, result, N * sizeof *result, ACL_MEMCPY_DEVICE_TO_HOST));
	printf("sum %.1f\n", sum(host));
#else
	printf("sum %.1f\n", sum(result));
#endif
	ACL(aclrtFree(result));
	ACL(aclrtFreeHost(host));
	finish(stream);
	return 0;
}
