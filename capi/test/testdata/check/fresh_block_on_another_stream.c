/*
 * A pool gives memory out in the order of a stream that has nothing to do. Another stream uses it at once: nothing says that
 * the first has got that far.
 *
 * finds: stream-race (error)
 * offence: submitted aclrtMemsetAsync in main at OFFENCE on stream 2, task 1
 * other: submitted aclrtMemPoolMallocAsync in main at ALLOCATED
 * bytes: 0+4096 of device 2097152
 */
#include "program.h"

#include <acl/acl_rt_memory_soma.h>

enum { SIZE = 4096, BLOCK = 2 << 20 };

int main(void)
{
	aclrtStream compute = start(), upload;
	aclrtEvent given;
	aclrtMemPoolProps props = {0};
	aclrtMemPool pool;
	void *block;
	props.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
	ACL(aclrtCreateStream(&upload));
	ACL(aclrtCreateEvent(&given));
	ACL(aclrtMemPoolCreate(&pool, &props));

	ACL(aclrtMemPoolMallocAsync(&block, BLOCK, pool, compute)); // ALLOCATED
#ifdef FIXED
	ACL(aclrtRecordEvent(given, compute));
	ACL(aclrtStreamWaitEvent(upload, given));
#endif
	ACL(aclrtMemsetAsync(block, SIZE, 0, SIZE, upload)); // OFFENCE

	ACL(aclrtSynchronizeStream(upload));
	ACL(aclrtMemPoolFreeAsync(block, upload));
	ACL(aclrtSynchronizeStream(upload));
	ACL(aclrtMemPoolDestroy(pool));
	ACL(aclrtDestroyEvent(given));
	ACL(aclrtDestroyStream(upload));
	finish(compute);
	return 0;
}
