/* Group vmm, inside one process. */
#include "proof.h"

void functions_mapping(void);
void functions_links(void);

enum { PIECE = 2 * 1024 * 1024 };

static const aclrtPhysicalMemProp physical = {
	.handleType = ACL_MEM_HANDLE_TYPE_NONE,
	.allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED,
	.memAttr = ACL_HBM_MEM_HUGE,
	.location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE},
};

static const aclrtMemLocation device0 = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE};

/* Whether copies find nothing at an address. */
static bool is_hole(const void *p)
{
	char byte;
	return aclrtMemcpy(&byte, 1, p, 1, ACL_MEMCPY_DEVICE_TO_HOST) == ACL_ERROR_RT_PARAM_INVALID;
}

static void reserving(void)
{
	aclrtPhysicalMemProp prop = physical;
	unsigned char *at = NULL;
	size_t unit = 0;
	FUNCTION("aclrtMemGetAllocationGranularity") {
		OK(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &unit));
		EFFECT(unit == PIECE);
		prop.memAttr = ACL_DDR_MEM_HUGE;
		REFUSES("ddr-on-device", aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &unit));
		prop = physical;
		prop.location.id = 99;
		REFUSES("device-unusable", aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &unit));
	}
	FUNCTION("aclrtReserveMemAddress") {
		OK(aclrtReserveMemAddress((void **)&at, 4 * PIECE, 0, NULL, 0));
		EFFECT(at != NULL && is_hole(at));
		REFUSES("driver-refuses", aclrtReserveMemAddress((void **)&at, PIECE, 64, NULL, 0));
	}
	FUNCTION("aclrtReleaseMemAddress") {
		OK(aclrtReleaseMemAddress(at));
		EFFECT(aclrtReleaseMemAddress(at) == ACL_ERROR_RT_PARAM_INVALID);
		REFUSES("not-reserved", aclrtReleaseMemAddress(at));
	}
	FUNCTION("aclrtReserveMemAddressNoUCMemory") {
		void *wish = (void *)((uintptr_t)50 << 40);
#ifdef __SANITIZE_THREAD__ /* which has the place */
		at = NULL;
		REFUSES("driver-refuses", aclrtReserveMemAddressNoUCMemory((void **)&at, (size_t)1 << 30, 0, wish, 0));
		EFFECT(at == NULL);
#else
		OK(aclrtReserveMemAddressNoUCMemory((void **)&at, (size_t)1 << 30, 0, wish, 0));
		EFFECT(at == wish);
		OK(aclrtReleaseMemAddress(at));
#endif
		REFUSES("driver-refuses", aclrtReserveMemAddressNoUCMemory((void **)&at, (size_t)1 << 30, 0, NULL, 0));
	}
}

static void mapping(void)
{
	unsigned char *at = NULL, *start = NULL;
	aclrtDrvMemHandle first = NULL, second = NULL, same = NULL;
	aclrtPhysicalMemProp prop = physical;
	size_t size = 0;
	OK(aclrtReserveMemAddress((void **)&at, 4 * PIECE, 0, NULL, 0));
	FUNCTION("aclrtMallocPhysical") {
		OK(aclrtMallocPhysical(&first, PIECE, &physical, 0));
		OK(aclrtMallocPhysical(&second, PIECE, &physical, 0));
		EFFECT(first != NULL && first != second);
		prop.memAttr = (aclrtMemAttr)0;
		REFUSES("memAttr-unknown", aclrtMallocPhysical(&same, PIECE, &prop, 0));
		prop = physical;
		prop.location.id = 99;
		REFUSES("device-unusable", aclrtMallocPhysical(&same, PIECE, &prop, 0));
		REFUSES("out-of-memory", aclrtMallocPhysical(&same, (size_t)1 << 40, &physical, 0));
	}
	FUNCTION("aclrtMapMem") {
		OK(aclrtMapMem(at, PIECE, 0, first, 0));
		OK(aclrtMapMem(at + PIECE, PIECE, 0, second, 0));
		fill(at + PIECE - ROOM / 2, NEW); /* across the border */
		EFFECT(holds(at + PIECE - ROOM / 2, ROOM, NEW));
		REFUSES("driver-refuses", aclrtMapMem(at + 2 * PIECE, PIECE, PIECE, first, 0));
		REFUSES("driver-refuses", aclrtMapMem(at + 4 * PIECE, PIECE, 0, first, 0));
	}
	FUNCTION("aclrtMemGetAddressRange") {
		OK(aclrtMemGetAddressRange(scene.dev[0] + 5, (void **)&start, &size));
		EFFECT(start == scene.dev[0] && size >= ROOM);
		OK(aclrtMemGetAddressRange(at + PIECE + 7, (void **)&start, &size));
		EFFECT(start <= at + PIECE && start + size >= at + 2 * PIECE);
		REFUSES("nothing-asked", aclrtMemGetAddressRange(at, NULL, NULL));
		REFUSES("pointer-unknown", aclrtMemGetAddressRange(at + 3 * PIECE, (void **)&start, &size));
	}
	FUNCTION("aclrtMemRetainAllocationHandle") {
		OK(aclrtMemRetainAllocationHandle(at + PIECE, &same));
		OK(aclrtMapMem(at + 2 * PIECE, PIECE, 0, same, 0));
		EFFECT(holds_from(at + 2 * PIECE, 0, ROOM / 2, NEW, ROOM / 2)); /* the same memory at a second place */
		OK(aclrtUnmapMem(at + 2 * PIECE));
		OK(aclrtFreePhysical(same));
		REFUSES("not-mapped", aclrtMemRetainAllocationHandle(at + 3 * PIECE, &same));
	}
	FUNCTION("aclrtMemGetAllocationPropertiesFromHandle") {
		memset(&prop, 0xFF, sizeof prop);
		OK(aclrtMemGetAllocationPropertiesFromHandle(first, &prop));
		EFFECT(prop.memAttr == ACL_HBM_MEM_HUGE && prop.location.type == ACL_MEM_LOCATION_TYPE_DEVICE && prop.location.id == 0);
		REFUSES("driver-refuses", aclrtMemGetAllocationPropertiesFromHandle(GARBAGE, &prop));
	}
	FUNCTION("aclrtUnmapMem") {
		OK(aclrtUnmapMem(at));
		EFFECT(is_hole(at) && !is_hole(at + PIECE));
		REFUSES("not-mapped", aclrtUnmapMem(at));
	}
	FUNCTION("aclrtFreePhysical") {
		OK(aclrtFreePhysical(second));
		EFFECT(holds_from(at + PIECE, 0, ROOM / 2, NEW, ROOM / 2)); /* it stays as long as it is mapped */
		REFUSES("handle-unknown", aclrtFreePhysical(second));
	}
	uint64_t flag = 99;
	aclrtMemLocation host = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_HOST}, location = device0;
	aclrtMemAccessDesc access = {.flags = ACL_RT_MEM_ACCESS_FLAGS_READWRITE, .location = device0};
	FUNCTION("aclrtMemMapNoAccess") {
		OK(aclrtMemMapNoAccess(at, PIECE, 0, first, 0));
		OK(aclrtMemGetAccess(at, &location, &flag));
		EFFECT(flag == ACL_RT_MEM_ACCESS_FLAGS_NONE && is_hole(at));
		REFUSES("driver-refuses", aclrtMemMapNoAccess(at, PIECE, 0, first, 0)); /* something is mapped there */
	}
	FUNCTION("aclrtMemSetAccess") {
		OK(aclrtMemSetAccess(at, PIECE, &access, 1));
		fill(at, OLD);
		EFFECT(holds(at, ROOM, OLD));
		access.flags = ACL_RT_MEM_ACCESS_FLAGS_READ;
		REFUSES("flags-none-or-read", aclrtMemSetAccess(at, PIECE, &access, 1));
	}
	FUNCTION("aclrtMemGetAccess") {
		OK(aclrtMemGetAccess(at, &location, &flag));
		EFFECT(flag == ACL_RT_MEM_ACCESS_FLAGS_READWRITE);
		REFUSES("not-mapped", aclrtMemGetAccess(at + 3 * PIECE, &host, &flag));
	}
	OK(aclrtUnmapMem(at));
	OK(aclrtUnmapMem(at + PIECE));
	OK(aclrtFreePhysical(first));
	OK(aclrtReleaseMemAddress(at));
}

void functions_mapping(void)
{
	reserving();
	mapping();
}

/* On an A3. */
void functions_links(void)
{
	unsigned char *at = NULL;
	aclrtDrvMemHandle memory = NULL;
	OK(aclrtReserveMemAddress((void **)&at, 2 * PIECE, 0, NULL, 0));
	OK(aclrtMallocPhysical(&memory, PIECE, &physical, 0));
	FUNCTION("aclrtMemMapSetLink") {
		OK(aclrtMemMapSetLink(memory, ACL_RT_MEM_ACCESS_LINK_HCCS));
		OK(aclrtMapMem(at, PIECE, 0, memory, 0));
		EFFECT(!is_hole(at));
		REFUSES("driver-refuses", aclrtMemMapSetLink(GARBAGE, ACL_RT_MEM_ACCESS_LINK_HCCS));
	}
	FUNCTION("aclrtMemMapSelectedLink") {
		fill(at, NEW);
		OK(aclrtMemMapSelectedLink(at + PIECE, PIECE, at, ACL_RT_MEM_LINK_IDX_1));
		EFFECT(holds(at + PIECE, ROOM, NEW));
		REFUSES("source-unknown", aclrtMemMapSelectedLink(at + PIECE, PIECE, at + 5, ACL_RT_MEM_LINK_IDX_1));
	}
	OK(aclrtUnmapMem(at + PIECE));
	OK(aclrtUnmapMem(at));
	OK(aclrtFreePhysical(memory));
	OK(aclrtReleaseMemAddress(at));
}
