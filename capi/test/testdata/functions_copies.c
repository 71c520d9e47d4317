/* Group memory-copy: copies and fills, one at a time, in batches, of rows, by descriptor and with offsets. */
#include "proof.h"

void functions_copies(void);
void functions_copies_950(void);

enum { SEGMENTS = 3, SIZE = 64, UNTOUCHED = 777, VALUE = 0x12345678 };

/* Old bytes on the device, new ones in pinned memory. */
static void renew(void)
{
	for (int i = 0; i < SEGMENTS; i++) {
		fill(scene.dev[i], OLD);
		fill(scene.pin[i], NEW);
	}
}

/* Whether place i has the new bytes, and nothing after them. */
static bool arrived(int i) { return holds(scene.dev[i], SIZE, NEW) && holds_from(scene.dev[i], SIZE, SIZE, OLD, SIZE); }

static void single(void)
{
	FUNCTION("aclrtMemcpy") {
		renew();
		OK(aclrtMemcpy(scene.dev[0], ROOM, scene.pin[0], SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
		EFFECT(arrived(0));
		REFUSES("dst-null", aclrtMemcpy(NULL, SIZE, scene.pin[0], SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
	}
	FUNCTION("aclrtMemcpyAsync") {
		renew();
		OK(aclrtMemcpyAsync(scene.dev[0], SIZE, scene.pin[0], SIZE, ACL_MEMCPY_HOST_TO_DEVICE, scene.stream));
		OK(aclrtSynchronizeStream(scene.stream));
		EFFECT(arrived(0));
		REFUSES("stream-of-other-context", aclrtMemcpyAsync(scene.dev[0], SIZE, scene.pin[0], SIZE, ACL_MEMCPY_HOST_TO_DEVICE, scene.foreign));
	}
	FUNCTION("aclrtMemcpyAsyncWithCondition") {
		renew();
		OK(aclrtMemcpyAsyncWithCondition(scene.dev[0], SIZE, scene.pin[0], SIZE, ACL_MEMCPY_HOST_TO_DEVICE, scene.stream));
		OK(aclrtSynchronizeStream(scene.stream));
		EFFECT(arrived(0));
		REFUSES("stream-not-live", aclrtMemcpyAsyncWithCondition(scene.dev[0], SIZE, scene.pin[0], SIZE, ACL_MEMCPY_HOST_TO_DEVICE, scene.gone));
	}
}

static const size_t segment_sizes[SEGMENTS] = {SIZE, SIZE, SIZE}, zero_sized[SEGMENTS] = {SIZE, SIZE, 0}, one_attr[1] = {0};

/* Three segments of 64 bytes with one attribute; the third goes to where the caller says. */
#define SEGMENTS_TO(last, sizes) \
	(void *[]){scene.dev[0], scene.dev[1], last}, (size_t *)segment_sizes, (void *[]){scene.pin[0], scene.pin[1], scene.pin[2]}, \
		(size_t *)(sizes), SEGMENTS, \
		&(aclrtMemcpyBatchAttr){.dstLoc.type = ACL_MEM_LOCATION_TYPE_DEVICE, .srcLoc.type = ACL_MEM_LOCATION_TYPE_HOST}, \
		(size_t *)one_attr, 1

static void batches(void)
{
	size_t failed = UNTOUCHED;
	FUNCTION("aclrtMemcpyBatch") {
		renew();
		OK(aclrtMemcpyBatch(SEGMENTS_TO(scene.dev[2], segment_sizes), &failed));
		EFFECT(failed == SIZE_MAX && arrived(0) && arrived(1) && arrived(2));
		renew();
		REFUSES("dst-elsewhere", aclrtMemcpyBatch(SEGMENTS_TO(scene.pin[3], segment_sizes), &failed));
		EFFECT(failed == 2 && holds(scene.dev[0], ROOM, OLD));
	}
	FUNCTION("aclrtMemcpyBatchV2") {
		renew();
		OK(aclrtMemcpyBatchV2(SEGMENTS_TO(scene.dev[2], segment_sizes)));
		EFFECT(arrived(0) && arrived(1) && arrived(2));
	}
	FUNCTION("aclrtMemcpyBatchAsync") {
		renew();
		failed = UNTOUCHED;
		OK(aclrtMemcpyBatchAsync(SEGMENTS_TO(scene.dev[2], segment_sizes), &failed, scene.stream));
		OK(aclrtSynchronizeStream(scene.stream));
		EFFECT(failed == SIZE_MAX && arrived(0) && arrived(1) && arrived(2));
		renew();
		REFUSES("segment-size", aclrtMemcpyBatchAsync(SEGMENTS_TO(scene.dev[2], zero_sized), &failed, scene.stream));
		OK(aclrtSynchronizeStream(scene.stream));
		EFFECT(failed == 2 && arrived(0) && arrived(1)); /* those before it were queued */
	}
	FUNCTION("aclrtMemcpyBatchAsyncV2") {
		renew();
		OK(aclrtMemcpyBatchAsyncV2(SEGMENTS_TO(scene.dev[2], segment_sizes), scene.stream));
		OK(aclrtSynchronizeStream(scene.stream));
		EFFECT(arrived(0) && arrived(1) && arrived(2));
	}
}

/* Whether four rows of 8 bytes, 16 apart, lie on the device 32 apart. */
static bool rows_arrived(void)
{
	for (size_t row = 0; row < 4; row++)
		if (!holds_from(scene.dev[0], 32 * row, 8, NEW, 16 * row) || !holds_from(scene.dev[0], 32 * row + 8, 24, OLD, 32 * row + 8))
			return false;
	return true;
}

static void planes(void)
{
	FUNCTION("aclrtMemcpy2d") {
		renew();
		OK(aclrtMemcpy2d(scene.dev[0], 32, scene.pin[0], 16, 8, 4, ACL_MEMCPY_HOST_TO_DEVICE));
		EFFECT(rows_arrived());
	}
	FUNCTION("aclrtMemcpy2dAsync") {
		renew();
		OK(aclrtMemcpy2dAsync(scene.dev[0], 32, scene.pin[0], 16, 8, 4, ACL_MEMCPY_HOST_TO_DEVICE, scene.stream));
		OK(aclrtSynchronizeStream(scene.stream));
		EFFECT(rows_arrived());
	}
}

/* A descriptor in dev[0] for 64 bytes from dev[1] to dev[2]. */
static void descriptors(size_t want)
{
	size_t size = 0;
	FUNCTION("aclrtGetMemcpyDescSize") {
		OK(aclrtGetMemcpyDescSize(ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, &size));
		EFFECT(size == want);
	}
	fill(scene.dev[1], NEW);
	fill(scene.dev[2], OLD);
	FUNCTION("aclrtSetMemcpyDesc") {
		EFFECT(aclrtSetMemcpyDesc(scene.dev[0], ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, scene.dev[1], scene.dev[2], SIZE, NULL) == 0);
	}
	FUNCTION("aclrtMemcpyAsyncWithDesc") {
		OK(aclrtMemcpyAsyncWithDesc(scene.dev[0], ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, scene.stream));
		OK(aclrtSynchronizeStream(scene.stream));
		EFFECT(arrived(2));
	}
}

/* The cells are dev[0] and dev[1], what they lead to dev[2] and dev[3]. */
static void offsets(void)
{
	FUNCTION("aclrtMemcpyAsyncWithOffset") {
		fill(scene.dev[2], OLD);
		fill(scene.dev[3], NEW);
		OK(aclrtMemcpy(scene.dev[0], 8, &scene.dev[2], 8, ACL_MEMCPY_HOST_TO_DEVICE));
		OK(aclrtMemcpy(scene.dev[1], 8, &scene.dev[3], 8, ACL_MEMCPY_HOST_TO_DEVICE));
		OK(aclrtMemcpyAsyncWithOffset((void **)scene.dev[0], 128, 32, (const void **)scene.dev[1], SIZE, 16,
			ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, scene.stream));
		OK(aclrtSynchronizeStream(scene.stream));
		EFFECT(holds(scene.dev[2], 32, OLD) && holds_from(scene.dev[2], 32, SIZE, NEW, 16) && holds_from(scene.dev[2], 96, 32, OLD, 96));
	}
}

/* Whether the first n bytes repeat VALUE, as bytes or as words, and the rest is as it was. */
static bool filled(size_t n, size_t width)
{
	unsigned char got[ROOM];
	OK(aclrtMemcpy(got, ROOM, scene.dev[0], n, ACL_MEMCPY_DEVICE_TO_HOST));
	for (size_t i = 0; i < n; i++)
		if (got[i] != (unsigned char)(VALUE >> (8 * (i % width))))
			return false;
	return holds_from(scene.dev[0], n, SIZE, OLD, n);
}

static void fills(void)
{
	FUNCTION("aclrtMemset") {
		fill(scene.dev[0], OLD);
		OK(aclrtMemset(scene.dev[0], ROOM, VALUE, SIZE));
		EFFECT(filled(SIZE, 1));
	}
	FUNCTION("aclrtMemsetAsync") {
		fill(scene.dev[0], OLD);
		OK(aclrtMemsetAsync(scene.dev[0], ROOM, VALUE, SIZE, scene.stream));
		OK(aclrtSynchronizeStream(scene.stream));
		EFFECT(filled(SIZE, 1));
	}
	FUNCTION("aclrtMemsetD32") {
		fill(scene.dev[0], OLD);
		OK(aclrtMemsetD32(scene.dev[0], ROOM, VALUE, SIZE / 4));
		EFFECT(filled(SIZE, 4));
	}
	FUNCTION("aclrtMemsetD32Async") {
		fill(scene.dev[0], OLD);
		OK(aclrtMemsetD32Async(scene.dev[0], ROOM, VALUE, SIZE / 4, scene.stream));
		OK(aclrtSynchronizeStream(scene.stream));
		EFFECT(filled(SIZE, 4));
	}
}

void functions_copies(void)
{
	single();
	batches();
	planes();
	descriptors(32);
	offsets();
	fills();
}

/* Registered memory, as a 950 lists it. */
static void ranges(void)
{
	FUNCTION("aclrtHostGetDevicePointerAddrRange") {
		aclrtAddrRange range = {NULL, NULL};
		void *p = aligned_alloc(4096, 8192), *device;
		uint32_t n = 9;
		OK(aclrtHostGetDevicePointerAddrRange(NULL, &n));
		EFFECT(n == 0);
		OK(aclrtHostRegister(p, 8192, ACL_HOST_REGISTER_MAPPED, &device));
		n = 1;
		OK(aclrtHostGetDevicePointerAddrRange(&range, &n));
		EFFECT(n == 1 && range.startAddr == device && range.endAddr == (char *)device + 8191);
		REFUSES("count-null", aclrtHostGetDevicePointerAddrRange(&range, NULL));
		OK(aclrtHostUnregister(p));
		free(p);
	}
}

void functions_copies_950(void)
{
	descriptors(64);
	ranges();
}
