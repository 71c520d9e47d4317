/*
 * Half a page is in flight, and one instruction copies the other half away; then one copies too much. (rep movsb)
 *
 * finds: host-read-in-flight (error)
 * offence: read in take at OFFENCE
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMallocHost in main at ALLOCATED
 * bytes: 2048+? of pinned 4096
 * needs: x86-64
 */
#include "program.h"

enum { SIZE = 4096, HALF = SIZE / 2 };

static __attribute__((noinline)) void take(void *to, const void *from, size_t bytes)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory"); // OFFENCE
}

int main(void)
{
	aclrtStream stream = start();
	static char copy[SIZE];
	char *pinned;
	void *device;
	ACL(aclrtMallocHost((void **)&pinned, SIZE)); // ALLOCATED
	memset(pinned, 'p', SIZE);
	ACL(aclrtMalloc(&device, HALF, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemset(device, HALF, 'd', HALF));

	ACL(aclrtMemcpyAsync(pinned + HALF, HALF, device, HALF, ACL_MEMCPY_DEVICE_TO_HOST, stream)); // SUBMIT
	take(copy, pinned, HALF);
#ifdef FIXED
	ACL(aclrtSynchronizeStream(stream));
#endif
	take(copy, pinned, SIZE);
	printf("%c %c\n", copy[0], copy[HALF - 1]);

	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtFreeHost(pinned));
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
