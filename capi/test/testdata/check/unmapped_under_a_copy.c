/*
 * The memory of an address is unmapped while a copy to it is pending.
 *
 * finds: free-in-flight (error)
 * offence: freed aclrtUnmapMem in main at OFFENCE
 * other: submitted aclrtMemcpyAsync in main at SUBMIT on stream 1, task 1
 * other: allocated aclrtMapMem in main at ALLOCATED
 * bytes: 0+4096 of mapped 2097152
 */
#include "program.h"

enum { SIZE = 4096, PIECE = 2 << 20 };

int main(void)
{
	aclrtStream stream = start();
	aclrtPhysicalMemProp prop = {
		.handleType = ACL_MEM_HANDLE_TYPE_NONE, .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED, .memAttr = ACL_HBM_MEM_HUGE,
		.location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE},
	};
	aclrtDrvMemHandle memory;
	void *host, *cache;
	ACL(aclrtMallocHost(&host, SIZE));
	ACL(aclrtReserveMemAddress(&cache, PIECE, 0, NULL, 0));
	ACL(aclrtMallocPhysical(&memory, PIECE, &prop, 0));
	ACL(aclrtMapMem(cache, PIECE, 0, memory, 0)); // ALLOCATED
	ACL(aclrtFreePhysical(memory)); // it stays as long as it is mapped

	ACL(aclrtMemcpyAsync(cache, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream)); // SUBMIT
#ifdef FIXED
	ACL(aclrtSynchronizeStream(stream));
#endif
	ACL(aclrtUnmapMem(cache)); // OFFENCE
	ACL(aclrtReleaseMemAddress(cache));

	ACL(aclrtSynchronizeStream(stream));
	ACL(aclrtFreeHost(host));
	finish(stream);
	return 0;
}
