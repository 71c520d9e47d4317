/*
 * A loop over the rows of a result goes one too far, and adds up what is after the pinned buffer.
 *
 * finds: host-out-of-bounds (error)
 * offence: read in total at OFFENCE
 * other: allocated aclrtMallocHost in main at ALLOCATED
 * bytes: 65536+4 of pinned 65536
 */
#include "program.h"

enum { ROWS = 64, COLUMNS = 256, SIZE = ROWS * COLUMNS * sizeof(float) };

#ifdef FIXED
#define LAST (ROWS - 1)
#else
#define LAST ROWS
#endif

static float total(const float *result)
{
	float sum = 0;
	for (int row = 0; row <= LAST; row++)
		sum += result[row * COLUMNS]; // OFFENCE
	return sum;
}

int main(void)
{
	aclrtStream stream = start();
	float *result;
	void *device;
	ACL(aclrtMallocHost((void **)&result, SIZE)); // ALLOCATED
	ACL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemsetAsync(device, SIZE, 0, SIZE, stream));
	ACL(aclrtMemcpyAsync(result, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
	ACL(aclrtSynchronizeStream(stream));
	printf("total %.1f\n", total(result));
	ACL(aclrtFree(device));
	ACL(aclrtFreeHost(result));
	finish(stream);
	return 0;
}
