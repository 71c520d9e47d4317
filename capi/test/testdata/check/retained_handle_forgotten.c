/*
 * Retaining the handle of an address means freeing it once more. The program frees it once, for aclrtMallocPhysical.
 *
 * finds: leak (error)
 * offence: retained aclrtMemRetainAllocationHandle in on_device at ALLOCATED
 * other: made aclrtMallocPhysical in main at SUBMIT
 * other: freed aclrtFreePhysical in main at FREED
 */
#include "program.h"

enum { PIECE = 2 << 20 };

static int on_device(void *at)
{
	aclrtDrvMemHandle handle;
	aclrtPhysicalMemProp prop;
	ACL(aclrtMemRetainAllocationHandle(at, &handle)); // ALLOCATED
	ACL(aclrtMemGetAllocationPropertiesFromHandle(handle, &prop));
#ifdef FIXED
	ACL(aclrtFreePhysical(handle));
#endif
	return prop.location.type == ACL_MEM_LOCATION_TYPE_DEVICE;
}

int main(void)
{
	aclrtStream stream = start();
	aclrtPhysicalMemProp prop = {
		.handleType = ACL_MEM_HANDLE_TYPE_NONE, .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED, .memAttr = ACL_HBM_MEM_HUGE,
		.location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE},
	};
	aclrtDrvMemHandle memory;
	void *cache;
	ACL(aclrtReserveMemAddress(&cache, PIECE, 0, NULL, 0));
	ACL(aclrtMallocPhysical(&memory, PIECE, &prop, 0)); // SUBMIT
	ACL(aclrtMapMem(cache, PIECE, 0, memory, 0));

	printf("%d\n", on_device(cache));

	ACL(aclrtUnmapMem(cache));
	ACL(aclrtReleaseMemAddress(cache));
	ACL(aclrtFreePhysical(memory)); // FREED
	finish(stream);
	return 0;
}
