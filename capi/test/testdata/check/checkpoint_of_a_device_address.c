/*
 * A checkpoint is written to a file right from device memory. The kernel refuses with EFAULT, and the program takes it
 * for a full disk.
 *
 * finds: device-memory-on-host (error)
 * offence: read in save at OFFENCE
 * other: allocated aclrtMalloc in main at ALLOCATED
 * bytes: 64+960 of device 4096
 */
#include "program.h"

#include <sys/uio.h>
#include <unistd.h>

enum { SIZE = 4096, HEADER = 64, PART = 960 };

static void save(int file, char *weights)
{
	char header[HEADER] = "weights";
	struct iovec pieces[] = {{header, HEADER}, {weights + HEADER, PART}};
	if (writev(file, pieces, 2) != HEADER + PART) // OFFENCE
		fprintf(stderr, "not saved\n");
}

int main(void)
{
	aclrtStream stream = start();
	char *weights, *host;
	FILE *file = tmpfile();
	if (!file)
		return 1;
	ACL(aclrtMalloc((void **)&weights, SIZE, ACL_MEM_MALLOC_HUGE_FIRST)); // ALLOCATED
	ACL(aclrtMallocHost((void **)&host, SIZE));
	ACL(aclrtMemset(weights, SIZE, 1, SIZE));
#ifdef FIXED
	ACL(aclrtMemcpy(host, SIZE, weights, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
	save(fileno(file), host);
#else
	save(fileno(file), weights);
#endif

	fclose(file);
	ACL(aclrtFreeHost(host));
	ACL(aclrtFree(weights));
	finish(stream);
	return 0;
}
