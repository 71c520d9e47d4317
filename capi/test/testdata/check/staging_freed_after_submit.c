/*
 * A helper allocates a pinned source, queues its copy and frees it on return. The next one gets the same memory, and the device
 * gets whatever is in it by then. One of the incidents: "accuracy falling to zero with no error".
 *
 * finds: free-in-flight (error)
 * offence: freed aclrtFreeHost in upload at OFFENCE
 * other: submitted aclrtMemcpyAsync in upload at SUBMIT on stream 1, task 1
 * other: allocated aclrtMallocHost in upload at ALLOCATED
 * bytes: 0+4096 of pinned 4096
 */
#include "program.h"

enum { SIZE = 4096 };

static void upload(void *device, int layer, aclrtStream stream)
{
	void *staging;
	ACL(aclrtMallocHost(&staging, SIZE)); // ALLOCATED
	memset(staging, layer, SIZE);
	ACL(aclrtMemcpyAsync(device, SIZE, staging, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream)); // SUBMIT
#ifdef FIXED
	ACL(aclrtSynchronizeStream(stream));
#endif
	ACL(aclrtFreeHost(staging)); // OFFENCE
}

int main(void)
{
	aclrtStream stream = start();
	void *weights;
	ACL(aclrtMalloc(&weights, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
	upload(weights, 1, stream);
	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtFree(weights));
	finish(stream);
	return 0;
}
