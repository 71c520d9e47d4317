/*
 * Memory of a pool is freed in the order of a stream, and used once more after that.
 *
 * finds: use-after-free (error)
 * offence: submitted aclrtMemcpyAsync in main at OFFENCE on stream 1, task 3
 * other: allocated aclrtMemPoolMallocAsync in main at ALLOCATED
 * other: freed aclrtMemPoolFreeAsync in main at FREED
 * bytes: 0+4096 of device 2097152
 */
#include "program.h"

#include <acl/acl_rt_memory_soma.h>

enum { SIZE = 4096, BLOCK = 2 << 20 };

int main(void)
{
	aclrtStream stream = start();
	aclrtMemPoolProps props = {.location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE}};
	aclrtMemPool pool;
	void *host, *block;
	ACL(aclrtMallocHost(&host, SIZE));
	ACL(aclrtMemPoolCreate(&pool, &props));

	ACL(aclrtMemPoolMallocAsync(&block, BLOCK, pool, stream)); // ALLOCATED
	ACL(aclrtMemsetAsync(block, SIZE, 1, SIZE, stream));
#ifndef FIXED
	ACL(aclrtMemPoolFreeAsync(block, stream)); // FREED
#endif
	ACL(aclrtMemcpyAsync(host, SIZE, block, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream)); // OFFENCE
#ifdef FIXED
	ACL(aclrtMemPoolFreeAsync(block, stream));
#endif

	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtMemPoolDestroy(pool));
	ACL(aclrtFreeHost(host));
	finish(stream);
	return 0;
}
