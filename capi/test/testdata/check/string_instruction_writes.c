/*
 * A third of a page is being copied up, and one instruction fills another third; then one fills too much. (rep stosb)
 *
 * finds: host-write-in-flight (error)
 * offence: written in fill at OFFENCE
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMallocHost in main at ALLOCATED
 * bytes: 1024+? of pinned 3072
 * needs: x86-64
 */
#include "program.h"

enum { THIRD = 1024 };

static __attribute__((noinline)) void fill(void *to, char with, size_t bytes)
{
	__asm__ volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(with) : "memory"); // OFFENCE
}

int main(void)
{
	aclrtStream stream = start();
	char *pinned;
	void *device;
	ACL(aclrtMallocHost((void **)&pinned, 3 * THIRD)); // ALLOCATED
	ACL(aclrtMalloc(&device, THIRD, ACL_MEM_MALLOC_HUGE_FIRST));
	fill(pinned, 'a', 3 * THIRD);

	ACL(aclrtMemcpyAsync(device, THIRD, pinned + THIRD, THIRD, ACL_MEMCPY_HOST_TO_DEVICE, stream)); // SUBMIT
	fill(pinned, 'b', THIRD);
	fill(pinned + 2 * THIRD, 'c', THIRD);
#ifdef FIXED
	ACL(aclrtSynchronizeStream(stream));
#endif
	fill(pinned, 'd', 2 * THIRD);
	printf("%c%c%c\n", pinned[0], pinned[THIRD - 1], pinned[2 * THIRD]);

	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtFreeHost(pinned));
	ACL(aclrtFree(device));
	finish(stream);
	return 0;
}
