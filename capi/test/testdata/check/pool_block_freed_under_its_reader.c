/*
 * Memory of a pool is freed in the order of the stream that computes, while the stream that downloads still reads it. The next that gets it
 * writes into what is being read.
 *
 * finds: free-in-flight (error)
 * offence: freed aclrtMemPoolFreeAsync in main at OFFENCE on stream 1, task 3
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 2, task 2
 * other: allocated aclrtMemPoolMallocAsync in main at ALLOCATED
 * bytes: 0+4096 of device 2097152
 */
#include "program.h"

#include <acl/acl_rt_memory_soma.h>

enum { SIZE = 4096, BLOCK = 2 << 20 };

int main(void)
{
	aclrtStream compute = start(), download;
	aclrtEvent computed, read;
	aclrtMemPoolProps props = {.location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE}};
	aclrtMemPool pool;
	void *host, *block;
	ACL(aclrtCreateStream(&download));
	ACL(aclrtCreateEvent(&computed));
	ACL(aclrtCreateEvent(&read));
	ACL(aclrtMallocHost(&host, SIZE));
	ACL(aclrtMemPoolCreate(&pool, &props));

	ACL(aclrtMemPoolMallocAsync(&block, BLOCK, pool, compute)); // ALLOCATED
	ACL(aclrtMemsetAsync(block, SIZE, 1, SIZE, compute));
	ACL(aclrtRecordEvent(computed, compute));
	ACL(aclrtStreamWaitEvent(download, computed));
	ACL(aclrtMemcpyAsync(host, SIZE, block, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, download)); // SUBMIT
#ifdef FIXED
	ACL(aclrtRecordEvent(read, download));
	ACL(aclrtStreamWaitEvent(compute, read));
#endif
	ACL(aclrtMemPoolFreeAsync(block, compute)); // OFFENCE

	ACL(aclrtSynchronizeStream(compute));
	ACL(aclrtSynchronizeStream(download));
	ACL(aclrtMemPoolDestroy(pool));
	ACL(aclrtDestroyEvent(computed));
	ACL(aclrtDestroyEvent(read));
	ACL(aclrtDestroyStream(download));
	ACL(aclrtFreeHost(host));
	finish(compute);
	return 0;
}
