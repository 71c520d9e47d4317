/*
 * A pool: memory that is allocated and freed in the order of a stream. No thread waits, and freed memory is available again for what
 * the stream does next, so a hundred buffers take the device's memory once.
 */
#include <string.h>

#include <acl/acl_rt_memory_soma.h>

#include "check.h"

enum { ROUNDS = 100, CHUNK = 64, SIZE = 2 * 1024 * 1024 };

static uint64_t attribute(aclrtMemPool pool, aclrtMemPoolAttr which)
{
	uint64_t value = 0;
	ACL(aclrtMemPoolGetAttr(pool, which, &value));
	return value;
}

int main(void)
{
	ACL(aclInit(NULL));
	ACL(aclrtSetDevice(0));
	aclrtStream stream;
	ACL(aclrtCreateStream(&stream));

	aclrtMemPoolProps props = {
		.allocType = ACL_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE},
	};
	aclrtMemPool pool;
	ACL(aclrtMemPoolCreate(&pool, &props));
	uint64_t keep = 4 * SIZE; /* what nobody uses would go back to the device at the next synchronisation */
	ACL(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &keep));

	unsigned char *source, *result;
	ACL(aclrtMallocHost((void **)&source, ROUNDS * CHUNK));
	ACL(aclrtMallocHost((void **)&result, ROUNDS * CHUNK));
	for (int i = 0; i < ROUNDS * CHUNK; i++)
		source[i] = (unsigned char)(i % 253);
	memset(result, 0, ROUNDS * CHUNK);

	/* Nothing here waits. Each buffer is good for what is queued between its two calls, and for nothing else. */
	for (int i = 0; i < ROUNDS; i++) {
		void *buffer;
		ACL(aclrtMemPoolMallocAsync(&buffer, SIZE, pool, stream));
		ACL(aclrtMemcpyAsync(buffer, SIZE, source + i * CHUNK, CHUNK, ACL_MEMCPY_HOST_TO_DEVICE, stream));
		ACL(aclrtMemcpyAsync(result + i * CHUNK, CHUNK, buffer, CHUNK, ACL_MEMCPY_DEVICE_TO_HOST, stream));
		ACL(aclrtMemPoolFreeAsync(buffer, stream));
	}
	ACL(aclrtSynchronizeStream(stream));
	expect(memcmp(source, result, ROUNDS * CHUNK) == 0, "a buffer was handed out twice at a time");
	uint64_t most = attribute(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH);
	expect(most == SIZE, "freed memory is not used again");
	printf("%d buffers of %d bytes came from the pool, which allocated only %llu from the device.\n", ROUNDS, SIZE,
	       (unsigned long long)most);

	expect(attribute(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT) == 0, "a buffer is still in use");
	ACL(aclrtMemPoolTrimTo(pool, 0));
	expect(attribute(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT) == 0, "the pool keeps memory");
	printf("All of it was freed.\n");

	ACL(aclrtMemPoolDestroy(pool));
	ACL(aclrtFreeHost(result));
	ACL(aclrtFreeHost(source));
	ACL(aclrtDestroyStream(stream));
	ACL(aclrtResetDevice(0));
	ACL(aclFinalize());
	return 0;
}
