/*
 * Descriptor copy: what to copy is written in device memory and read there when the copy runs, not when it is queued.
 * So earlier work on the stream can still decide it. Products A2, A3, 950 and 310B have descriptors.
 */
#include <string.h>

#include "check.h"

enum { SIZE = 4096 };

int main(void)
{
	ACL(aclInit(NULL));
	ACL(aclrtSetDevice(0));
	aclrtStream stream;
	ACL(aclrtCreateStream(&stream));

	/* Two sources and one target on the device, because a descriptor copies within a device. */
	unsigned char *host;
	void *red, *blue, *target;
	ACL(aclrtMallocHost((void **)&host, SIZE));
	ACL(aclrtMalloc(&red, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMalloc(&blue, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMalloc(&target, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMemset(red, SIZE, 'r', SIZE));
	ACL(aclrtMemset(blue, SIZE, 'b', SIZE));

	/*
	 * The size of a descriptor depends on the product, so ask. It has to lie in device memory at a multiple of 64;
	 * aclrtMalloc sees to that. (Several in one allocation: round the size up to 64.)
	 */
	const aclrtMemcpyKind kind = ACL_MEMCPY_INNER_DEVICE_TO_DEVICE; /* the only one there is for descriptors */
	size_t size;
	void *desc, *other;
	ACL(aclrtGetMemcpyDescSize(kind, &size));
	ACL(aclrtMalloc(&desc, size, ACL_MEM_MALLOC_HUGE_FIRST));
	ACL(aclrtMalloc(&other, size, ACL_MEM_MALLOC_HUGE_FIRST));

	/* Written at once, so no queued copy may need the old contents. Mind the order: source, then target. */
	ACL(aclrtSetMemcpyDesc(desc, kind, red, target, SIZE, NULL));
	ACL(aclrtSetMemcpyDesc(other, kind, blue, target, SIZE, NULL));

	/* As often as wanted. The descriptor has to live until the copy is done; the default stream is not taken here. */
	ACL(aclrtMemcpyAsyncWithDesc(desc, kind, stream));
	ACL(aclrtMemcpyAsync(host, SIZE, target, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
	ACL(aclrtSynchronizeStream(stream));
	for (int i = 0; i < SIZE; i++)
		expect(host[i] == 'r', "the target should be red");
	printf("The descriptor names red: %d bytes of the target are red.\n", SIZE);

	/* Now the stream itself rewrites the descriptor before the device reads it: the call below is the same as above. */
	ACL(aclrtMemcpyAsync(desc, size, other, size, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
	ACL(aclrtMemcpyAsyncWithDesc(desc, kind, stream));
	ACL(aclrtMemcpyAsync(host, SIZE, target, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
	ACL(aclrtSynchronizeStream(stream));
	for (int i = 0; i < SIZE; i++)
		expect(host[i] == 'b', "the target should be blue");
	printf("The stream rewrote the descriptor: the same call copied blue.\n");

	ACL(aclrtFree(other));
	ACL(aclrtFree(desc));
	ACL(aclrtFree(target));
	ACL(aclrtFree(blue));
	ACL(aclrtFree(red));
	ACL(aclrtFreeHost(host));
	ACL(aclrtDestroyStream(stream));
	ACL(aclrtResetDevice(0));
	ACL(aclFinalize());
	return 0;
}
