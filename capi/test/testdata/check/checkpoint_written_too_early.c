/*
 * Weights go to a file while they still come down from the device: it is the system call write that reads them.
 *
 * finds: host-read-in-flight (error)
 * offence: read in save at OFFENCE
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMallocHost in main at ALLOCATED
 * bytes: 0+32768 of pinned 32768
 */
#include <unistd.h>

#include "program.h"

enum { SIZE = 32768 };

static void save(FILE *file, const void *weights)
{
	if (write(fileno(file), weights, SIZE) != SIZE) // OFFENCE
		exit(2);
}

int main(void)
{
	aclrtStream stream = start();
	FILE *file = tmpfile();
	void *weights, *device;
	ACL(aclrtMallocHost(&weights, SIZE)); // ALLOCATED
	ACL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemset(device, SIZE, 7, SIZE));

	ACL(aclrtMemcpyAsync(weights, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream)); // SUBMIT
#ifdef FIXED
	ACL(aclrtSynchronizeStream(stream));
#endif
	save(file, weights);

	ACL(aclrtSynchronizeStream(stream));
	fclose(file);
	ACL(aclrtFreeHost(weights));
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
