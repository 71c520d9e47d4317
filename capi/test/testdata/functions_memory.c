/* Groups device-memory, host-memory and unified-addressing. */
#include "proof.h"

void functions_memory(void);

static int kind_of(const void *p)
{
	aclrtPtrAttributes at;
	OK(aclrtPointerGetAttributes(p, &at));
	return (int)at.location.type;
}

/* Whether p is device memory that keeps ROOM bytes; it is freed. */
static bool device_memory(void *p)
{
	bool good = kind_of(p) == ACL_MEM_LOCATION_TYPE_DEVICE && (uintptr_t)p % 64 == 0;
	fill(p, NEW);
	good = good && holds(p, ROOM, NEW);
	OK(aclrtFree(p));
	return good;
}

/* Whether p is pinned memory that the program can write and the device can read; it is freed. */
static bool pinned_memory(unsigned char *p)
{
	for (unsigned i = 0; i < ROOM; i++)
		p[i] = (unsigned char)(7 * i + NEW);
	fill(scene.dev[0], OLD);
	OK(aclrtMemcpyAsync(scene.dev[0], ROOM, p, ROOM, ACL_MEMCPY_HOST_TO_DEVICE, scene.stream));
	OK(aclrtSynchronizeStream(scene.stream));
	bool good = kind_of(p) == ACL_MEM_LOCATION_TYPE_HOST && holds(scene.dev[0], ROOM, NEW);
	OK(aclrtFreeHost(p));
	return good;
}

static const aclrtMemMallocPolicy policy = ACL_MEM_MALLOC_HUGE_FIRST;

static void allocating(void)
{
	void *p;
	aclrtMallocAttribute attrs[] = {
		{.attr = ACL_RT_MEM_ATTR_MODULE_ID, .value.moduleId = 33}, {.attr = ACL_RT_MEM_ATTR_DEVICE_ID, .value.deviceId = 0},
	};
	aclrtMallocConfig cfg = {attrs, 2};
	FUNCTION("aclrtMalloc") {
		OK(aclrtMalloc(&p, ROOM, policy));
		EFFECT(device_memory(p));
		REFUSES("size-overflows", aclrtMalloc(&p, SIZE_MAX, policy));
		REFUSES("out-of-memory", aclrtMalloc(&p, (size_t)1 << 40, policy));
		NO_CONTEXT
			REFUSES("no-context", aclrtMalloc(&p, ROOM, policy));
	}
	FUNCTION("aclrtMallocAlign32") {
		OK(aclrtMallocAlign32(&p, ROOM, policy));
		EFFECT(device_memory(p));
	}
	FUNCTION("aclrtMallocCached") {
		OK(aclrtMallocCached(&p, ROOM, policy));
		EFFECT(device_memory(p));
	}
	FUNCTION("aclrtMallocWithCfg") {
		OK(aclrtMallocWithCfg(&p, ROOM, policy, &cfg));
		EFFECT(device_memory(p));
		attrs[1].value.deviceId = 1;
		REFUSES("device-attribute-unusable", aclrtMallocWithCfg(&p, ROOM, policy, &cfg));
		attrs[1].attr = ACL_RT_MEM_ATTR_VA_FLAG;
		REFUSES("attribute-unknown", aclrtMallocWithCfg(&p, ROOM, policy, &cfg));
		OK(aclrtMallocWithCfg(&p, ROOM, policy, NULL));
		EFFECT(device_memory(p));
	}
	FUNCTION("aclrtMallocForTaskScheduler") {
		aclrtMallocConfig empty = {NULL, 0};
		OK(aclrtMallocForTaskScheduler(&p, ROOM, policy, NULL));
		EFFECT(device_memory(p));
		REFUSES("no-attrs", aclrtMallocForTaskScheduler(&p, ROOM, policy, &empty));
	}
	FUNCTION("aclrtMallocHost") {
		OK(aclrtMallocHost(&p, ROOM));
		EFFECT(pinned_memory(p));
	}
	FUNCTION("aclrtMallocHostWithCfg") {
		aclrtMallocAttribute same = {.attr = ACL_RT_MEM_ATTR_VA_FLAG, .value.vaFlag = 1};
		aclrtMallocConfig host = {&same, 1};
		OK(aclrtMallocHostWithCfg(&p, ROOM, &host));
		EFFECT(pinned_memory(p));
		same.attr = ACL_RT_MEM_ATTR_DEVICE_ID;
		REFUSES("attribute-unknown", aclrtMallocHostWithCfg(&p, ROOM, &host));
	}
}

/* The gate that the device waits at is opened while the main thread waits for the device. */
static void open_soon(void *p) { gate_open(p); }

static void freeing(void)
{
	struct gate gate;
	struct thread opener = {.body = open_soon, .arg = &gate};
	void *p;
	FUNCTION("aclrtFree") {
		OK(aclrtMalloc(&p, ROOM, policy));
		OK(aclrtFree(p));
		EFFECT(kind_of(p) == ACL_MEM_LOCATION_TYPE_UNREGISTERED);
		REFUSES("not-allocated", aclrtFree(p));
	}
	FUNCTION("aclrtFreeHost") {
		OK(aclrtMallocHost(&p, ROOM));
		OK(aclrtFreeHost(p));
		EFFECT(kind_of(p) == ACL_MEM_LOCATION_TYPE_UNREGISTERED);
		REFUSES("device-or-managed", aclrtFreeHost(scene.dev[0]));
		REFUSES("pointer-unknown", aclrtFreeHost(scene.page[0]));
	}
	for (int host = 0; host < 2; host++)
		FUNCTION(host ? "aclrtFreeHostWithDevSync" : "aclrtFreeWithDevSync") {
			fill(scene.dev[0], OLD);
			OK(host ? aclrtMallocHost(&p, ROOM) : aclrtMalloc(&p, ROOM, policy));
			block(&gate, scene.stream);
			OK(aclrtMemsetAsync(scene.dev[0], ROOM, 5, ROOM, scene.stream));
			thread_start(&opener);
			OK(host ? aclrtFreeHostWithDevSync(p) : aclrtFreeWithDevSync(p));
			EFFECT(kind_of(p) == ACL_MEM_LOCATION_TYPE_UNREGISTERED && !holds(scene.dev[0], 64, OLD));
			thread_join(&opener);
			gate_drop(&gate);
			REFUSES(host ? "not-host-memory" : "pointer-unknown", host ? aclrtFreeHostWithDevSync(p) : aclrtFreeWithDevSync(p));
			NO_CONTEXT
				REFUSES("no-context", host ? aclrtFreeHostWithDevSync(p) : aclrtFreeWithDevSync(p));
		}
}

static void looking(void)
{
	size_t free1, free2, total, n = 9;
	void *p;
	FUNCTION("aclrtMemFlush") {
		fill(scene.dev[0], NEW);
		OK(aclrtMemFlush(scene.dev[0], ROOM));
		EFFECT(holds(scene.dev[0], ROOM, NEW));
	}
	FUNCTION("aclrtMemInvalidate") {
		OK(aclrtMemInvalidate(scene.dev[0], ROOM));
		EFFECT(holds(scene.dev[0], ROOM, NEW));
	}
	FUNCTION("aclrtGetMemInfo") {
		OK(aclrtGetMemInfo(ACL_HBM_MEM, &free1, &total));
		OK(aclrtMalloc(&p, 1 << 20, policy));
		OK(aclrtGetMemInfo(ACL_HBM_MEM, &free2, &total));
		EFFECT(free1 <= total && free2 + (1 << 20) <= free1);
		OK(aclrtFree(p));
		REFUSES("attr-outside-0-to-17", aclrtGetMemInfo((aclrtMemAttr)18, &free1, &total));
	}
	FUNCTION("aclrtGetMemUsageInfo") {
		aclrtMemUsageInfo use[4];
		OK(aclrtGetMemUsageInfo(0, use, 4, &n));
		EFFECT(n >= 1 && n <= 4 && use[0].curMemSize >= PLACES * ROOM && use[0].memPeakSize >= use[0].curMemSize);
		REFUSES("inputNum-0", aclrtGetMemUsageInfo(0, use, 0, &n));
		CHECK(n == 0);
	}
	FUNCTION("aclrtCheckMemType") {
		uint32_t yes = 9;
		void *list[2] = {scene.dev[0], scene.dev[1] + 10};
		OK(aclrtCheckMemType(list, 2, ACL_RT_MEM_TYPE_DEV, &yes, 0));
		EFFECT(yes == 1);
		list[1] = scene.pin[0];
		OK(aclrtCheckMemType(list, 2, ACL_RT_MEM_TYPE_DEV, &yes, 0));
		EFFECT(yes == 0);
	}
	FUNCTION("aclrtPointerGetAttributes") {
		aclrtPtrAttributes at;
		EFFECT(kind_of(scene.dev[0] + 9) == ACL_MEM_LOCATION_TYPE_DEVICE);
		EFFECT(kind_of(scene.pin[0]) == ACL_MEM_LOCATION_TYPE_HOST);
		EFFECT(kind_of(scene.page[0]) == ACL_MEM_LOCATION_TYPE_UNREGISTERED);
		OK(aclrtPointerGetAttributes(scene.far, &at));
		EFFECT(at.location.id == 1 && at.location.type == ACL_MEM_LOCATION_TYPE_DEVICE);
	}
	FUNCTION("aclrtHostMemMapCapabilities") {
		aclrtHostMemMapCapability has = ACL_RT_HOST_MEM_MAP_NOT_SUPPORTED;
		OK(aclrtHostMemMapCapabilities(0, ACL_RT_HAC_TYPE_SDMA, &has));
		EFFECT(has == ACL_RT_HOST_MEM_MAP_SUPPORTED);
		OK(aclrtHostMemMapCapabilities(0, ACL_RT_HAC_TYPE_CCU, &has));
		EFFECT(has == ACL_RT_HOST_MEM_MAP_NOT_SUPPORTED);
	}
}

static void registering(void)
{
	void *p = aligned_alloc(4096, 2 * ROOM), *first, *second;
	CHECK(p != NULL);
	FUNCTION("aclrtHostRegister") {
		OK(aclrtHostRegister(p, ROOM, ACL_HOST_REGISTER_MAPPED, &first));
		EFFECT(first != NULL && kind_of(p) == ACL_MEM_LOCATION_TYPE_HOST);
		REFUSES("overlaps", aclrtHostRegister(p, 2 * ROOM, ACL_HOST_REGISTER_MAPPED, &second));
		REFUSES("type-bits", aclrtHostRegister(p, ROOM, (aclrtHostRegisterType)1, &second));
	}
	FUNCTION("aclrtHostGetDevicePointer") {
		OK(aclrtHostGetDevicePointer((char *)p + 100, &second, 0));
		EFFECT((char *)second == (char *)first + 100);
		REFUSES("not-mapped", aclrtHostGetDevicePointer(scene.page[0], &second, 0));
	}
	FUNCTION("aclrtHostUnregister") {
		REFUSES("not-registered", aclrtHostUnregister((char *)p + 1));
		OK(aclrtHostUnregister(p));
		EFFECT(kind_of(p) == ACL_MEM_LOCATION_TYPE_UNREGISTERED);
		REFUSES("not-registered", aclrtHostUnregister(p));
	}
	FUNCTION("aclrtHostRegisterV2") {
		OK(aclrtHostRegisterV2(p, 2 * ROOM, ACL_HOST_REG_PINNED));
		EFFECT(kind_of((char *)p + ROOM) == ACL_MEM_LOCATION_TYPE_HOST);
		OK(aclrtHostUnregister(p));
		REFUSES("flag-bits", aclrtHostRegisterV2(p, ROOM, 0));
		REFUSES("ptr-unaligned", aclrtHostRegisterV2(scene.dev[0], ROOM, ACL_HOST_REG_MAPPED));
	}
	free(p);
}

void functions_memory(void)
{
	allocating();
	freeing();
	looking();
	registering();
}
