/*
 * The next part of a file is read into a staging buffer whose copy is pending: it is the system call read that writes it.
 *
 * finds: host-write-in-flight (error)
 * offence: written in load at OFFENCE
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMallocHost in main at ALLOCATED
 * bytes: 0+8192 of pinned 8192
 */
#include <unistd.h>

#include "program.h"

enum { PART = 8192 };

static void load(FILE *file, void *staging, int part)
{
	if (lseek(fileno(file), part * PART, SEEK_SET) < 0 || read(fileno(file), staging, PART) != PART) // OFFENCE
		exit(2);
}

int main(void)
{
	aclrtStream stream = start();
	FILE *file = tmpfile();
	void *staging, *device;
	if (ftruncate(fileno(file), 2 * PART) != 0)
		return 2;
	ACL(aclrtMallocHost(&staging, PART)); // ALLOCATED
	ACL(aclrtMalloc(&device, 2 * PART, ACL_MEM_MALLOC_HUGE_FIRST));

	load(file, staging, 0);
	ACL(aclrtMemcpyAsync(device, PART, staging, PART, ACL_MEMCPY_HOST_TO_DEVICE, stream)); // SUBMIT
#ifdef FIXED
	ACL(aclrtSynchronizeStream(stream));
#endif
	load(file, staging, 1);
	ACL(aclrtSynchronizeStream(stream));

	fclose(file);
	ACL(aclrtFreeHost(staging));
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
