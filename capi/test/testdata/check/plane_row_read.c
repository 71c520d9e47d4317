/*
 * Rows of an image come down one by one, with room between them. The room may be read, a row may not.
 *
 * finds: host-read-in-flight (error)
 * offence: read in main at OFFENCE
 * other: submitted aclrtMemcpy2dAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMallocHost in main at ALLOCATED
 * bytes: 768+1 of pinned 4096
 */
#include "program.h"

enum { WIDTH = 192, PITCH = 256, ROWS = 16 };

int main(void)
{
	aclrtStream stream = start();
	volatile unsigned char *image;
	void *device;
	ACL(aclrtMallocHost((void **)&image, ROWS * PITCH)); // ALLOCATED
	memset((void *)image, 0, ROWS * PITCH);
	ACL(aclrtMalloc(&device, ROWS * WIDTH, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemset(device, ROWS * WIDTH, 4, ROWS * WIDTH));

	ACL(aclrtMemcpy2dAsync((void *)image, PITCH, device, WIDTH, WIDTH, ROWS, ACL_MEMCPY_DEVICE_TO_HOST, stream)); // SUBMIT
	int sum = 0;
	for (int row = 0; row < ROWS; row++)
		sum += image[row * PITCH + WIDTH] + image[row * PITCH + PITCH - 1];
#ifdef FIXED
	ACL(aclrtSynchronizeStream(stream));
#endif
	sum += image[3 * PITCH]; // OFFENCE
	printf("%d\n", sum);

	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtFreeHost((void *)image));
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
