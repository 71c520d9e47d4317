/*
 * A memory pool is destroyed while a block of it is being filled, and the block is given back afterwards, to a pool that is gone. Both calls succeed.
 *
 * finds: free-in-flight (error)
 * offence: freed aclrtMemPoolDestroy in main at OFFENCE
 * other: submitted aclrtMemsetAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMemPoolMallocAsync in main at ALLOCATED
 * bytes: 0+4096 of device 2097152
 */
#include "program.h"
#include <acl/acl_rt_memory_soma.h>

enum { BLOCK = 2 << 20, SIZE = 4096 };

int main(void)
{
	aclrtStream stream = start();
	aclrtMemPool pool;
	aclrtMemPoolProps props;
	void *block;
	memset(&props, 0, sizeof props);
	props.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
	ACL(aclrtMemPoolCreate(&pool, &props));
	ACL(aclrtMemPoolMallocAsync(&block, BLOCK, pool, stream)); // ALLOCATED
	ACL(aclrtMemsetAsync(block, BLOCK, 1, SIZE, stream)); // SUBMIT
#ifdef FIXED
	ACL(aclrtMemPoolFreeAsync(block, stream));
	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtMemPoolDestroy(pool));
#else
	ACL(aclrtMemPoolDestroy(pool)); // OFFENCE
	ACL(aclrtMemPoolFreeAsync(block, stream));
#endif
	ACL(aclrtSynchronizeStream(stream));
	finish(stream);
	return 0;
}
