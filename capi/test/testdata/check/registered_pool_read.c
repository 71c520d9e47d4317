/*
 * A pool of the program's own, registered with the device, is read while a copy into its second half is pending.
 *
 * finds: host-read-in-flight (error)
 * offence: read in main at OFFENCE
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtHostRegister in main at ALLOCATED
 * bytes: 32768+1 of registered 65536
 */
#include <sys/mman.h>

#include "program.h"

enum { SIZE = 65536, HALF = SIZE / 2 };

int main(void)
{
	aclrtStream stream = start();
	volatile unsigned char *pool = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *mapped, *device;
	memset((void *)pool, 3, SIZE);
	ACL(aclrtHostRegister((void *)pool, SIZE, ACL_HOST_REGISTER_MAPPED, &mapped)); // ALLOCATED
	ACL(aclrtMalloc(&device, HALF, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemset(device, HALF, 5, HALF));

	ACL(aclrtMemcpyAsync((void *)(pool + HALF), HALF, device, HALF, ACL_MEMCPY_DEVICE_TO_HOST, stream)); // SUBMIT
#ifdef FIXED
	ACL(aclrtSynchronizeStream(stream));
#endif
	printf("%d\n", pool[HALF - 1]);
	printf("%d\n", pool[HALF]); // OFFENCE

	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtHostUnregister((void *)pool));
	munmap((void *)pool, SIZE);
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
