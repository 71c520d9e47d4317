/*
 * A block of a pool is copied to the host before anything was written to it, and freed in the order of its stream.
 *
 * finds: uninitialised-read (warning)
 * offence: submitted aclrtMemcpyAsync in main at OFFENCE on stream 1, task 1
 * other: allocated aclrtMemPoolMallocAsync in main at ALLOCATED
 * bytes: 0+4096 of device 2097152
 */
#include "program.h"

#include <acl/acl_rt_memory_soma.h>

enum { SIZE = 4096, BLOCK = 2 << 20 };

int main(void)
{
	aclrtStream stream = start();
	aclrtMemPoolProps props = {0};
	aclrtMemPool pool;
	void *block, *host;
	props.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
	ACL(aclrtMemPoolCreate(&pool, &props));
	ACL(aclrtMallocHost(&host, SIZE));

	ACL(aclrtMemPoolMallocAsync(&block, BLOCK, pool, stream)); // ALLOCATED
#ifdef FIXED
	ACL(aclrtMemsetAsync(block, SIZE, 0, SIZE, stream));
#endif
	ACL(aclrtMemcpyAsync(host, SIZE, block, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream)); // OFFENCE
	ACL(aclrtMemPoolFreeAsync(block, stream));
	ACL(aclrtSynchronizeStream(stream));

	ACL(aclrtMemPoolDestroy(pool));
	ACL(aclrtFreeHost(host));
	finish(stream);
	return 0;
}
