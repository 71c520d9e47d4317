/* Asynchronous copy: a megabyte goes up to the device and down again, while the host is free to do something else. */
#include <string.h>

#include "check.h"

enum { SIZE = 1 << 20 };

int main(void)
{
	/* Once for the process. NULL: no configuration file. */
	ACL(aclInit(NULL));

	/* This thread now works on device 0. Another thread would have to say so itself: threads inherit nothing. */
	ACL(aclrtSetDevice(0));

	/*
	 * Host memory for asynchronous copies comes from aclrtMallocHost. It is pinned: it cannot be moved or swapped out, so
	 * the device may read it whenever it gets there. With pageable memory (malloc, the stack) the call still works, but
	 * it waits for the whole stream and copies before it returns, and nothing is asynchronous any more.
	 *
	 * What both calls return is aligned to 64 bytes and more, which some products want of both ends of a copy. If
	 * you cut buffers into pieces, keep the offsets multiples of 64.
	 */
	unsigned char *up, *down;
	void *device;
	ACL(aclrtMallocHost((void **)&up, SIZE));
	ACL(aclrtMallocHost((void **)&down, SIZE));
	ACL(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));

	aclrtStream stream;
	ACL(aclrtCreateStream(&stream));

	for (int i = 0; i < SIZE; i++)
		up[i] = (unsigned char)(i * 31 + i / 256);
	memset(down, 0, SIZE);

	/*
	 * Both calls return when the copy is queued. One stream keeps its order, so the second copy starts when the first is
	 * done. The second argument is the room at the destination: a copy that would not fit is refused.
	 */
	ACL(aclrtMemcpyAsync(device, SIZE, up, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
	ACL(aclrtMemcpyAsync(down, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
	printf("Two copies are queued: %d bytes to the device, and back.\n", SIZE);

	/* From here on up must not be written and down must not be touched. Reading up is fine, and so is all else. */
	unsigned long sum = 0;
	for (int i = 0; i < SIZE; i++)
		sum += up[i];
	printf("Meanwhile the host added up the bytes: %lu.\n", sum);

	/* Waits for both copies, and returns the first error since the last time. */
	ACL(aclrtSynchronizeStream(stream));
	expect(memcmp(up, down, SIZE) == 0, "the bytes that came down are not those that went up");
	printf("Every byte came back.\n");

	/* In the opposite order; memory only when no copy uses it any more. */
	ACL(aclrtDestroyStream(stream));
	ACL(aclrtFree(device));
	ACL(aclrtFreeHost(down));
	ACL(aclrtFreeHost(up));
	ACL(aclrtResetDevice(0)); /* once for each aclrtSetDevice */
	ACL(aclFinalize());
	return 0;
}
