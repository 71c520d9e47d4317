/* Groups mem-pool, unified-addressing (managed memory, peers), symbol and allocator, and the tasks that compute. */
#include "proof.h"

#include <acl/acl_rt_memory_soma.h>
#include <ropeway/symbol.h>

void functions_pools(void);

enum { BLOCK = 2 * 1024 * 1024 };

static const aclrtMemPoolProps one_block = {
	.allocType = ACL_MEM_ALLOCATION_TYPE_PINNED,
	.location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE},
	.maxSize = BLOCK,
};

static uint64_t attribute(aclrtMemPool pool, aclrtMemPoolAttr which)
{
	uint64_t value = 0;
	OK(aclrtMemPoolGetAttr(pool, which, &value));
	return value;
}

static void pools(void)
{
	aclrtMemPool pool = NULL, gone = NULL;
	void *p = NULL, *q = NULL;
	uint64_t value = BLOCK;
	OK(aclrtMemPoolCreate(&gone, &one_block));
	FUNCTION("aclrtMemPoolDestroy") {
		OK(aclrtMemPoolDestroy(gone));
		EFFECT(aclrtMemPoolTrimTo(gone, 0) == ACL_ERROR_RT_INTERNAL_ERROR);
		REFUSES("pool-unknown", aclrtMemPoolDestroy(gone));
	}
	FUNCTION("aclrtMemPoolCreate") {
		aclrtMemPoolProps props = one_block;
		OK(aclrtMemPoolCreate(&pool, &props));
		EFFECT(pool != NULL);
		props.reserved[31] = 1;
		REFUSES("reserved-not-0", aclrtMemPoolCreate(&gone, &props));
		props = one_block;
		props.location.id = 99;
		REFUSES("device-unusable", aclrtMemPoolCreate(&gone, &props));
		props = one_block;
		props.maxSize = (size_t)1 << 50;
		REFUSES("maxSize-over-device", aclrtMemPoolCreate(&gone, &props));
	}
	FUNCTION("aclrtMemPoolSetAttr") {
		OK(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &value));
		EFFECT(attribute(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD) == BLOCK);
		REFUSES("pool-unknown", aclrtMemPoolSetAttr(gone, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &value));
		REFUSES("attr-read-only", aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT, &value));
		REFUSES("high-water-not-0", aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH, &value));
	}
	FUNCTION("aclrtMemPoolMallocAsync") {
		OK(aclrtMemPoolMallocAsync(&p, ROOM, pool, scene.stream));
		fill(p, NEW);
		EFFECT(holds(p, ROOM, NEW));
		REFUSES("stream-of-other-context", aclrtMemPoolMallocAsync(&q, ROOM, pool, scene.foreign));
		REFUSES("size-overflows", aclrtMemPoolMallocAsync(&q, SIZE_MAX, pool, scene.stream));
		REFUSES("pool-unknown", aclrtMemPoolMallocAsync(&q, ROOM, gone, scene.stream));
		REFUSES("pool-exhausted", aclrtMemPoolMallocAsync(&q, ROOM, pool, scene.stream)); /* the pool has one block */
	}
	FUNCTION("aclrtMemPoolGetAttr") {
		EFFECT(attribute(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT) == BLOCK);
		REFUSES("pool-unknown", aclrtMemPoolGetAttr(gone, ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT, &value));
	}
	FUNCTION("aclrtMemPoolFreeAsync") {
		OK(aclrtMemPoolFreeAsync(p, scene.stream));
		OK(aclrtMemPoolMallocAsync(&q, ROOM, pool, scene.stream));
		EFFECT(q == p); /* there again at once, for the same stream */
		OK(aclrtMemPoolFreeAsync(q, scene.stream));
		REFUSES("stream-of-other-context", aclrtMemPoolFreeAsync(p, scene.foreign));
		REFUSES("not-allocated", aclrtMemPoolFreeAsync(p, scene.stream));
	}
	FUNCTION("aclrtMemPoolTrimTo") {
		OK(aclrtSynchronizeStream(scene.stream));
		OK(aclrtMemPoolTrimTo(pool, 0));
		EFFECT(attribute(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT) == 0);
		REFUSES("pool-unknown", aclrtMemPoolTrimTo(gone, 0));
		REFUSES("keep-over-pool", aclrtMemPoolTrimTo(pool, 2 * BLOCK));
	}
	OK(aclrtMemPoolDestroy(pool));
}

static void managed(void)
{
	unsigned char *p = NULL;
	aclrtMemManagedLocation here = {.type = ACL_MEM_LOCATIONTYPE_DEVICE, .id = 0}, nowhere = {.type = ACL_MEM_LOCATIONTYPE_DEVICE, .id = 99};
	int32_t value = 0;
	FUNCTION("aclrtMemAllocManaged") {
		OK(aclrtMemAllocManaged((void **)&p, BLOCK, ACL_RT_MEM_ATTACH_GLOBAL));
		p[BLOCK - 1] = 1; /* the host's, too */
		fill(p, NEW);
		EFFECT(p[0] == NEW && holds(p, ROOM, NEW));
		REFUSES("flag-not-1", aclrtMemAllocManaged((void **)&p, BLOCK, 2));
	}
	FUNCTION("aclrtMemManagedAdvise") {
		OK(aclrtMemManagedAdvise(p, BLOCK, ACL_MEM_ADVISE_SET_READ_MOSTLY, here));
		OK(aclrtMemManagedGetAttr(ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, BLOCK, &value, sizeof value));
		EFFECT(value == 1);
		REFUSES("ptr-null", aclrtMemManagedAdvise(NULL, BLOCK, ACL_MEM_ADVISE_SET_READ_MOSTLY, here));
		REFUSES("size-0", aclrtMemManagedAdvise(p, 0, ACL_MEM_ADVISE_SET_READ_MOSTLY, here));
		REFUSES("location-id", aclrtMemManagedAdvise(p, BLOCK, ACL_MEM_ADVISE_SET_READ_MOSTLY, nowhere));
		REFUSES("driver-refuses-range", aclrtMemManagedAdvise(scene.dev[0], BLOCK, ACL_MEM_ADVISE_SET_READ_MOSTLY, here));
	}
	FUNCTION("aclrtMemManagedPrefetchAsync") {
		OK(aclrtMemManagedPrefetchAsync(p, BLOCK, here, 0, scene.stream));
		OK(aclrtSynchronizeStream(scene.stream));
		OK(aclrtMemManagedGetAttr(ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE, p, BLOCK, &value, sizeof value));
		EFFECT(value == ACL_MEM_LOCATIONTYPE_DEVICE);
		REFUSES("ptr-null", aclrtMemManagedPrefetchAsync(NULL, BLOCK, here, 0, scene.stream));
		REFUSES("size-0", aclrtMemManagedPrefetchAsync(p, 0, here, 0, scene.stream));
		REFUSES("flags-not-0", aclrtMemManagedPrefetchAsync(p, BLOCK, here, 1, scene.stream));
		REFUSES("stream-not-live", aclrtMemManagedPrefetchAsync(p, BLOCK, here, 0, scene.gone));
		REFUSES("location-id", aclrtMemManagedPrefetchAsync(p, BLOCK, nowhere, 0, scene.stream));
		REFUSES("stream-of-other-context", aclrtMemManagedPrefetchAsync(p, BLOCK, here, 0, scene.foreign));
	}
	FUNCTION("aclrtMemManagedPrefetchBatchAsync") {
		const void *ptrs[] = {p};
		size_t sizes[] = {BLOCK}, indexes[] = {0, 0};
		aclrtMemManagedLocation host[] = {{.type = ACL_MEM_LOCATIONTYPE_HOST}, nowhere};
		OK(aclrtMemManagedPrefetchBatchAsync(ptrs, sizes, 1, host, indexes, 1, 0, scene.stream));
		OK(aclrtSynchronizeStream(scene.stream));
		OK(aclrtMemManagedGetAttr(ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE, p, BLOCK, &value, sizeof value));
		EFFECT(value == ACL_MEM_LOCATIONTYPE_HOST);
		REFUSES("count-below-numPrefetchLocs", aclrtMemManagedPrefetchBatchAsync(ptrs, sizes, 1, host, indexes, 2, 0, scene.stream));
	}
	FUNCTION("aclrtMemManagedGetAttr") {
		OK(aclrtMemManagedGetAttr(ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, BLOCK, &value, sizeof value));
		EFFECT(value == 1);
		REFUSES("driver-refuses-range", aclrtMemManagedGetAttr(ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, BLOCK, &value, 3));
	}
	FUNCTION("aclrtMemManagedGetAttrs") {
		aclrtMemManagedRangeAttribute which[] = {ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE};
		int32_t values[2] = {0, 0};
		void *data[] = {&values[0], &values[1]};
		size_t sizes[] = {sizeof values[0], sizeof values[1]};
		OK(aclrtMemManagedGetAttrs(which, 2, p, BLOCK, data, sizes));
		EFFECT(values[0] == 1 && values[1] == ACL_MEM_LOCATIONTYPE_HOST);
		REFUSES("driver-refuses-range", aclrtMemManagedGetAttrs(which, 2, scene.pin[0], BLOCK, data, sizes));
	}
	OK(aclrtFree(p));
}

static void peers(void)
{
	FUNCTION("aclrtMemP2PMap") {
		EFFECT(aclrtMemP2PMap(scene.dev[0], ROOM, 1, 0) == ACL_ERROR_RT_PARAM_INVALID); /* not allowed yet */
		OK(aclrtDeviceEnablePeerAccess(1, 0));
		EFFECT(aclrtMemP2PMap(scene.dev[0], ROOM, 1, 0) == ACL_SUCCESS);
		OK(aclrtDeviceDisablePeerAccess(1));
		NO_CONTEXT
			REFUSES("no-context", aclrtMemP2PMap(scene.dev[0], ROOM, 1, 0));
	}
}

static void symbols(void)
{
	static int variable, unknown;
	unsigned char initial[ROOM];
	void *address = NULL;
	size_t size = 0;
	for (unsigned i = 0; i < ROOM; i++)
		initial[i] = (unsigned char)(7 * i + OLD);
	OK(ropewayRegisterSymbol(&variable, ROOM, initial));
	OK(ropewayRegisterSymbol(&variable, ROOM, NULL)); /* again: changes nothing */
	IS(ACL_ERROR_INVALID_PARAM, ropewayRegisterSymbol(&variable, 1, NULL));
	IS(ACL_ERROR_INVALID_PARAM, ropewayRegisterSymbol(&unknown, ROOM, (void *)64)); /* no memory */
	FUNCTION("aclrtGetSymbolAddress") {
		OK(aclrtGetSymbolAddress(&variable, &address));
		EFFECT(holds(address, ROOM, OLD));
		REFUSES("symbol-unknown", aclrtGetSymbolAddress(&unknown, &address));
		NO_CONTEXT
			REFUSES("no-context", aclrtGetSymbolAddress(&variable, &address));
	}
	FUNCTION("aclrtGetSymbolSize") {
		OK(aclrtGetSymbolSize(&variable, &size));
		EFFECT(size == ROOM);
		REFUSES("symbol-unknown", aclrtGetSymbolSize(&unknown, &size));
	}
	FUNCTION("aclrtMemcpyToSymbol") {
		fill(scene.pin[0], NEW);
		OK(aclrtMemcpyToSymbol(&variable, scene.pin[0], ROOM, 0, ACL_MEMCPY_HOST_TO_DEVICE));
		EFFECT(holds(address, ROOM, NEW));
		REFUSES("kind-not-1-and-not-4", aclrtMemcpyToSymbol(&variable, scene.pin[0], ROOM, 0, ACL_MEMCPY_DEVICE_TO_HOST));
		REFUSES("end-overflows", aclrtMemcpyToSymbol(&variable, scene.pin[0], ROOM, SIZE_MAX, ACL_MEMCPY_HOST_TO_DEVICE));
		REFUSES("end-over-variable", aclrtMemcpyToSymbol(&variable, scene.pin[0], ROOM, 1, ACL_MEMCPY_HOST_TO_DEVICE));
	}
	FUNCTION("aclrtMemcpyFromSymbol") {
		fill(scene.pin[1], OLD);
		OK(aclrtMemcpyFromSymbol(scene.pin[1], ROOM, &variable, ROOM - 100, 100, ACL_MEMCPY_DEVICE_TO_HOST));
		EFFECT(holds_from(scene.pin[1], 0, ROOM - 100, NEW, 100));
		REFUSES("count-over-dstMax", aclrtMemcpyFromSymbol(scene.pin[1], 1, &variable, ROOM, 0, ACL_MEMCPY_DEVICE_TO_HOST));
		REFUSES("end-over-variable", aclrtMemcpyFromSymbol(scene.pin[1], ROOM, &variable, ROOM, 1, ACL_MEMCPY_DEVICE_TO_HOST));
	}
	FUNCTION("aclrtMemcpyToSymbolAsync") {
		fill(scene.pin[0], OLD);
		OK(aclrtMemcpyToSymbolAsync(&variable, scene.pin[0], ROOM, 0, ACL_MEMCPY_HOST_TO_DEVICE, scene.stream));
		OK(aclrtSynchronizeStream(scene.stream));
		EFFECT(holds(address, ROOM, OLD));
	}
	FUNCTION("aclrtMemcpyFromSymbolAsync") {
		OK(aclrtMemcpyFromSymbolAsync(scene.pin[1], ROOM, &variable, ROOM, 0, ACL_MEMCPY_DEVICE_TO_HOST, scene.stream));
		OK(aclrtSynchronizeStream(scene.stream));
		EFFECT(holds(scene.pin[1], ROOM, OLD));
	}
}

/* An allocator whose blocks are one array. */
static unsigned char array[64];

static void *allocate(aclrtAllocator allocator, size_t size) { return size <= sizeof array ? allocator : NULL; }
static void *allocate_near(aclrtAllocator allocator, size_t size, aclrtAllocatorAddr addr) { return addr == NULL ? allocate(allocator, size) : NULL; }
static void release(aclrtAllocator allocator, aclrtAllocatorBlock block) { memset(allocator, 0, block == allocator); }
static void *address_of(aclrtAllocatorBlock block) { return block; }

static void allocators(void)
{
	aclrtAllocatorDesc desc = NULL, found = NULL, empty = NULL;
	aclrtAllocator object = NULL;
	aclrtAllocatorAllocFunc alloc_func = NULL;
	aclrtAllocatorFreeFunc free_func = NULL;
	aclrtAllocatorAllocAdviseFunc advise_func = NULL;
	aclrtAllocatorGetAddrFromBlockFunc address_func = NULL;
	FUNCTION("aclrtAllocatorCreateDesc") {
		desc = aclrtAllocatorCreateDesc();
		EFFECT(desc != NULL);
		empty = aclrtAllocatorCreateDesc();
		EDGE(empty != desc);
	}
	FUNCTION("aclrtAllocatorSetObjToDesc") {
		OK(aclrtAllocatorSetObjToDesc(desc, array));
		EFFECT(true);
	}
	FUNCTION("aclrtAllocatorSetAllocFuncToDesc") {
		OK(aclrtAllocatorSetAllocFuncToDesc(desc, allocate));
		EFFECT(true);
	}
	FUNCTION("aclrtAllocatorSetFreeFuncToDesc") {
		OK(aclrtAllocatorSetFreeFuncToDesc(desc, release));
		EFFECT(true);
	}
	FUNCTION("aclrtAllocatorSetAllocAdviseFuncToDesc") {
		OK(aclrtAllocatorSetAllocAdviseFuncToDesc(desc, allocate_near));
		EFFECT(true);
	}
	FUNCTION("aclrtAllocatorSetGetAddrFromBlockFuncToDesc") {
		OK(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, address_of));
		EFFECT(true);
	}
	FUNCTION("aclrtAllocatorRegister") {
		OK(aclrtAllocatorRegister(scene.stream, desc));
		EFFECT(true);
		REFUSES("entry-missing", aclrtAllocatorRegister(scene.stream, empty));
	}
	FUNCTION("aclrtAllocatorGetByStream") {
		OK(aclrtAllocatorGetByStream(scene.stream, &found, &object, &alloc_func, &free_func, &advise_func, &address_func));
		EFFECT(found == desc && object == array && alloc_func == allocate && free_func == release);
		EFFECT(advise_func == allocate_near && address_func == address_of);
		array[0] = 1; /* what came back can be called */
		void *block = alloc_func(object, sizeof array);
		EFFECT(block == array && advise_func(object, 1, block) == NULL && address_func(block) == array);
		free_func(object, block);
		EFFECT(array[0] == 0);
		REFUSES("not-registered", aclrtAllocatorGetByStream(scene.foreign, &found, &object, &alloc_func, &free_func, &advise_func, &address_func));
	}
	FUNCTION("aclrtAllocatorUnregister") {
		OK(aclrtAllocatorUnregister(scene.stream));
		EFFECT(aclrtAllocatorGetByStream(scene.stream, &found, &object, &alloc_func, &free_func, &advise_func, &address_func) ==
		       ACL_ERROR_INVALID_PARAM);
	}
	FUNCTION("aclrtAllocatorDestroyDesc") {
		OK(aclrtAllocatorDestroyDesc(desc));
		OK(aclrtAllocatorDestroyDesc(empty));
		EFFECT(aclrtAllocatorSetObjToDesc(desc, array) == ACL_ERROR_INVALID_PARAM);
	}
}

static void computing(void)
{
	float here[4] = {1, 2, 3, 4}, there[4] = {10, 20, 30, 40};
	FUNCTION("aclrtReduceAsync") {
		unsigned char *dst = scene.dev[0], *src = scene.dev[1];
		OK(aclrtMemcpy(dst, ROOM, here, sizeof here, ACL_MEMCPY_HOST_TO_DEVICE));
		OK(aclrtMemcpy(src, ROOM, there, sizeof there, ACL_MEMCPY_HOST_TO_DEVICE));
		OK(aclrtReduceAsync(dst, src, sizeof here, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT, scene.stream, NULL));
		OK(aclrtSynchronizeStream(scene.stream));
		OK(aclrtMemcpy(here, sizeof here, dst, sizeof here, ACL_MEMCPY_DEVICE_TO_HOST));
		EFFECT(here[0] == 11 && here[1] == 22 && here[2] == 33 && here[3] == 44);
		REFUSES("dst-null", aclrtReduceAsync(NULL, src, 16, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT, scene.stream, NULL));
		REFUSES("src-null", aclrtReduceAsync(dst, NULL, 16, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT, scene.stream, NULL));
		REFUSES("reserve-not-null", aclrtReduceAsync(dst, src, 16, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT, scene.stream, here));
		REFUSES("type-unknown", aclrtReduceAsync(dst, src, 16, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_DOUBLE, scene.stream, NULL));
		REFUSES("stream-not-live", aclrtReduceAsync(dst, src, 16, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT, scene.gone, NULL));
		REFUSES("count-0", aclrtReduceAsync(dst, src, 0, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT, scene.stream, NULL));
		REFUSES("stream-of-other-context", aclrtReduceAsync(dst, src, 16, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT, scene.foreign, NULL));
		REFUSES("unaligned", aclrtReduceAsync(dst, src + 1, 16, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT, scene.stream, NULL));
	}
	FUNCTION("aclrtRandomNumAsync") {
		enum { COUNT = 1000 };
		float numbers[COUNT], low = 2, high = 3;
		uint64_t seed = 42, count = COUNT;
		aclrtRandomNumTaskInfo task = {.dataType = ACL_FLOAT, .randomResultAddr = scene.dev[0], .randomCounterAddr = scene.dev[1]};
		task.randomNumFuncParaInfo.funcType = ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS;
		aclrtUniformDisInfo *uniform = &task.randomNumFuncParaInfo.paramInfo.uniformDisInfo;
		memcpy(uniform->min.valueOrAddr, &low, uniform->min.size = sizeof low);
		memcpy(uniform->max.valueOrAddr, &high, uniform->max.size = sizeof high);
		memcpy(task.randomSeed.valueOrAddr, &seed, task.randomSeed.size = sizeof seed);
		memcpy(task.randomNum.valueOrAddr, &count, task.randomNum.size = sizeof count);
		OK(aclrtMemset(scene.dev[1], ROOM, 0, ROOM));
		OK(aclrtRandomNumAsync(&task, scene.stream, NULL));
		OK(aclrtSynchronizeStream(scene.stream));
		OK(aclrtMemcpy(numbers, sizeof numbers, scene.dev[0], sizeof numbers, ACL_MEMCPY_DEVICE_TO_HOST));
		double sum = 0;
		for (int i = 0; i < COUNT; i++) {
			EFFECT(numbers[i] >= low && numbers[i] <= high);
			sum += numbers[i];
		}
		EFFECT(sum / COUNT > 2.4 && sum / COUNT < 2.6);
		task.randomResultAddr = NULL;
		REFUSES("parameters", aclrtRandomNumAsync(&task, scene.stream, NULL));
		task.dataType = ACL_INT8;
		REFUSES("dataType-unknown", aclrtRandomNumAsync(&task, scene.stream, NULL));
	}
}

void functions_pools(void)
{
	pools();
	managed();
	peers();
	symbols();
	allocators();
	computing();
}
