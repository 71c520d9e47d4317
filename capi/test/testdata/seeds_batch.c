/* Sentences about aclrtMemcpyBatchAsync. */
#include "seeds.h"
#include "seeds_list.h"

enum { MOST = 12, SIZE = 64, PITCH = 128 };

#define HOST ACL_MEM_LOCATION_TYPE_HOST
#define DEVICE ACL_MEM_LOCATION_TYPE_DEVICE
#define REFUSED ACL_ERROR_RT_PARAM_INVALID

/* The arguments of the next call. */
static void *dsts[MOST], *srcs[MOST];
static size_t destMaxs[MOST], sizes[MOST], indexes[MOST], count, numAttrs, failIndex;
static aclrtMemcpyBatchAttr attrs[MOST];

static aclrtMemcpyBatchAttr way(aclrtMemLocationType to, aclrtMemLocationType from)
{
	aclrtMemcpyBatchAttr a;
	memset(&a, 0, sizeof a);
	a.dstLoc.type = to, a.srcLoc.type = from;
	return a;
}

/* n segments of 64 bytes from pinned memory to the device, with one attribute. */
static void good(size_t n)
{
	fill(scene.dev[0], OLD);
	fill(scene.dev[1], NEW);
	fill(scene.pin[0], NEW);
	fill(scene.pin[1], OLD);
	fill(scene.page[0], NEW);
	count = n, numAttrs = 1, failIndex = 7;
	for (size_t i = 0; i < MOST; i++) {
		dsts[i] = scene.dev[0] + i * PITCH, srcs[i] = scene.pin[0] + i * PITCH;
		destMaxs[i] = sizes[i] = SIZE;
		attrs[i] = way(DEVICE, HOST);
		indexes[i] = i;
	}
}

/* The same with an attribute each. */
static void each(size_t n)
{
	good(n);
	numAttrs = n;
}

/* Segment i goes from the device to the host instead. */
static void turn(size_t i)
{
	dsts[i] = scene.pin[1] + i * PITCH, srcs[i] = scene.dev[1] + i * PITCH;
	attrs[i] = way(HOST, DEVICE);
}

static int call(void)
{
	return aclrtMemcpyBatchAsync(dsts, destMaxs, srcs, sizes, count, attrs, indexes, numAttrs, &failIndex, scene.stream);
}

/* Whether segment i, and no byte after it, has been copied; whether nothing of it has. */
static bool there(size_t i)
{
	size_t at = i * PITCH;
	size_t end = at + sizes[i];
	return holds_from(scene.dev[0], at, sizes[i], NEW, at) && holds_from(scene.dev[0], end, PITCH - sizes[i], OLD, end);
}

static bool is_old(void) { return holds(scene.dev[0], ROOM, OLD) && holds(scene.pin[1], ROOM, OLD); }

static bool all_there(void)
{
	for (size_t i = 0; i < count; i++)
		if (!there(i))
			return false;
	return holds_from(scene.dev[0], count * PITCH, ROOM - count * PITCH, OLD, count * PITCH);
}

/* Whether the product has batches; if not it says so, and that no copy is to blame. */
static bool has(void)
{
	if (machine.batch)
		return true;
	good(2);
	IS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, call());
	OK(synchronise());
	CHECK(failIndex == SIZE_MAX && is_old());
	return false;
}

/* The call succeeds and everything arrives. */
static void succeeds(void)
{
	OK(call());
	CHECK(failIndex == SIZE_MAX);
	OK(synchronise());
	CHECK(all_there());
}

/* The call is refused. What is wrong with segment at, or with none; segments before it may be on their way. */
static void refused(int code, size_t at)
{
	IS(code, call());
	CHECK(failIndex == at);
	OK(synchronise());
	if (at == SIZE_MAX || at == 0)
		CHECK(is_old());
}

void batch_products(void) { CHECK(has() == machine.batch); }

void batch_copies(void)
{
	if (!has())
		return;
	good(5);
	for (size_t i = 0; i < 5; i++)
		sizes[i] = 1 + 13 * i;
	succeeds();
	CHECK(holds(scene.pin[0], ROOM, NEW));
}

void batch_host_memory(void)
{
	if (!has())
		return;
	good(6);
	for (size_t i = 0; i < 6; i += 2)
		srcs[i] = scene.page[0] + i * PITCH;
	succeeds();
}

void batch_pageable(void)
{
	if (!has())
		return;
	good(4);
	for (size_t i = 0; i < 4; i++)
		srcs[i] = scene.page[0] + i * PITCH;
	OK(call());
	CHECK(all_there()); /* before anything was synchronised */
}

void batch_delivers(void)
{
	struct gate gate;
	if (!has())
		return;
	good(4);
	block(&gate, scene.stream);
	OK(call());
	CHECK(failIndex == SIZE_MAX && is_old());
	OK(unblock(&gate, scene.stream));
	CHECK(all_there());
}

void batch_synchronised(void)
{
	for (int round = 0; has() && round < 8; round++) {
		good(MOST);
		succeeds();
	}
}

void batch_prototype(void)
{
	aclError (*function)(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches,
		aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs, size_t *failIndex, aclrtStream stream);
	function = aclrtMemcpyBatchAsync;
	if (!has())
		return;
	good(2);
	OK(function(dsts, destMaxs, srcs, sizes, count, attrs, indexes, numAttrs, &failIndex, scene.stream));
	OK(synchronise());
	CHECK(all_there());
}

void batch_dest_maxs(void)
{
	if (!has())
		return;
	good(3);
	destMaxs[1] = SIZE - 1;
	refused(ACL_ERROR_INVALID_PARAM, SIZE_MAX);
	good(3);
	destMaxs[1] = SIZE + 1;
	succeeds();
}

void batch_num_batches(void)
{
	if (!has())
		return;
	good(2); /* the lists are longer */
	succeeds();
	good(0);
	refused(ACL_ERROR_INVALID_PARAM, SIZE_MAX);
}

void batch_attrs(void)
{
	if (!has())
		return;
	good(2);
	attrs[0].srcLoc.type = DEVICE;
	refused(REFUSED, 0);
	good(2);
	attrs[0].dstLoc.type = ACL_MEM_LOCATION_TYPE_UNREGISTERED;
	refused(REFUSED, 0);
	good(2);
	succeeds();
}

void batch_attr_ranges(void)
{
	if (!has())
		return;
	for (size_t first = 1; first < 4; first++) { /* the second attribute is wrong: from where it counts */
		good(5);
		numAttrs = 3, indexes[1] = first, indexes[2] = 4;
		attrs[1].dstLoc.id = 1;
		refused(REFUSED, first);
	}
	good(5); /* and up to where: the segment that it would be wrong for has the next one */
	numAttrs = 3, indexes[1] = 2, indexes[2] = 3;
	dsts[2] = scene.dev[0] + 2 * PITCH;
	attrs[1].srcLoc.type = ACL_MEM_LOCATION_TYPE_HOST_NUMA;
	succeeds();
}

void batch_last_attr(void)
{
	if (!has())
		return;
	for (size_t first = 1; first < 5; first++) {
		good(5);
		numAttrs = 2, indexes[1] = first;
		attrs[1].srcLoc.type = DEVICE;
		refused(REFUSED, first);
	}
	good(5);
	numAttrs = 2, indexes[1] = 2;
	dsts[4] = scene.pin[1]; /* the last copy has the last attribute too */
	refused(REFUSED, 4);
}

void batch_num_attrs(void)
{
	if (!has())
		return;
	good(3);
	attrs[1].dstLoc.id = 1, indexes[1] = 99; /* past the end */
	succeeds();
	good(3);
	numAttrs = 2, attrs[1].dstLoc.id = 1;
	refused(REFUSED, 1);
}

void batch_fail_index(void)
{
	if (!has())
		return;
	for (size_t i = 0; i < 4; i++) {
		each(4);
		attrs[i].dstLoc.id = 1; /* the memory is not there */
		refused(REFUSED, i);
		each(4);
		attrs[i].srcLoc.type = DEVICE;
		refused(REFUSED, i);
		each(4);
		dsts[i] = scene.pin[1], attrs[i].dstLoc.type = HOST; /* within the host */
		refused(REFUSED, i);
		if (i > 0) {
			each(4);
			turn(i);
			refused(REFUSED, i);
		}
	}
}

void batch_fail_index_only(void)
{
	if (!has())
		return;
	good(3); /* neither a memory attribute nor a direction */
	sizes[1] = destMaxs[1] = 1 << 20;
	IS(REFUSED, call());
	CHECK(failIndex == SIZE_MAX);
	OK(synchronise());
}

void batch_fail_index_none(void)
{
	if (!has())
		return;
	good(2);
	succeeds();
#define NOBODY(code, ...) \
	do { \
		failIndex = 7; \
		IS(code, aclrtMemcpyBatchAsync(__VA_ARGS__)); \
		CHECK(failIndex == SIZE_MAX); \
	} while (0)
	good(2);
	const int null = ACL_ERROR_INVALID_PARAM;
	aclrtStream s = scene.stream;
	NOBODY(null, NULL, destMaxs, srcs, sizes, 2, attrs, indexes, 1, &failIndex, s);
	NOBODY(null, dsts, NULL, srcs, sizes, 2, attrs, indexes, 1, &failIndex, s);
	NOBODY(null, dsts, destMaxs, NULL, sizes, 2, attrs, indexes, 1, &failIndex, s);
	NOBODY(null, dsts, destMaxs, srcs, NULL, 2, attrs, indexes, 1, &failIndex, s);
	NOBODY(null, dsts, destMaxs, srcs, sizes, 2, NULL, indexes, 1, &failIndex, s);
	NOBODY(null, dsts, destMaxs, srcs, sizes, 2, attrs, NULL, 1, &failIndex, s);
	NOBODY(null, dsts, destMaxs, srcs, sizes, 0, attrs, indexes, 1, &failIndex, s);
	NOBODY(REFUSED, dsts, destMaxs, srcs, sizes, 2, attrs, indexes, 0, &failIndex, s);
	NOBODY(REFUSED, dsts, destMaxs, srcs, sizes, 2, attrs, indexes, 3, &failIndex, s);
	NOBODY(ACL_ERROR_RT_INVALID_HANDLE, dsts, destMaxs, srcs, sizes, 2, attrs, indexes, 1, &failIndex, GARBAGE);
	NOBODY(ACL_ERROR_RT_INVALID_HANDLE, dsts, destMaxs, srcs, sizes, 2, attrs, indexes, 1, &failIndex, scene.gone);
	NOBODY(ACL_ERROR_RT_STREAM_CONTEXT, dsts, destMaxs, srcs, sizes, 2, attrs, indexes, 1, &failIndex, scene.foreign);
	NO_CONTEXT
		NOBODY(ACL_ERROR_RT_CONTEXT_NULL, dsts, destMaxs, srcs, sizes, 2, attrs, indexes, 1, &failIndex, s);
	attrs[0].rsv[3] = 1;
	NOBODY(null, dsts, destMaxs, srcs, sizes, 2, attrs, indexes, 1, &failIndex, s);
	CHECK(is_old());
}

void batch_stream(void)
{
	struct gate gate;
	aclrtStream other;
	if (!has())
		return;
	good(3);
	OK(aclrtCreateStream(&other));
	block(&gate, other);
	OK(aclrtMemcpyBatchAsync(dsts, destMaxs, srcs, sizes, count, attrs, indexes, numAttrs, &failIndex, other));
	OK(synchronise());
	CHECK(is_old());
	OK(unblock(&gate, other));
	CHECK(all_there());
	OK(aclrtDestroyStream(other));
}

void batch_returns(void)
{
	if (!has())
		return;
	good(2);
	IS(0, call());
	OK(synchronise());
	good(2);
	srcs[1] = NULL;
	CHECK(call() != 0);
	good(2);
	dsts[0] = NULL;
	CHECK(call() != 0);
}

void batch_unordered(void)
{
	if (!has())
		return;
	good(MOST); /* whatever their order, they end up the same */
	for (size_t i = 0; i < MOST; i++) {
		size_t to = 5 * i % MOST;
		dsts[i] = scene.dev[0] + to * PITCH, srcs[i] = scene.pin[0] + to * PITCH;
	}
	succeeds();
}

void batch_example(void)
{
	if (!has())
		return;
	good(10);
	numAttrs = 2, indexes[0] = 0, indexes[1] = 6;
	attrs[1].srcLoc.type = ACL_MEM_LOCATION_TYPE_HOST_NUMA;
	succeeds();
}

void batch_first_index(void)
{
	if (!has())
		return;
	good(3);
	indexes[0] = 1;
	refused(REFUSED, SIZE_MAX);
}

void batch_rising_indexes(void)
{
	if (!has())
		return;
	each(4);
	indexes[1] = 0;
	refused(REFUSED, SIZE_MAX);
	each(4);
	indexes[3] = 1;
	refused(REFUSED, SIZE_MAX);
}

void batch_last_index(void)
{
	if (!has())
		return;
	good(4);
	numAttrs = 2, indexes[1] = 4;
	refused(REFUSED, SIZE_MAX);
	good(4);
	numAttrs = 2, indexes[1] = 3;
	succeeds();
}

void batch_attrs_at_most(void)
{
	if (!has())
		return;
	good(4);
	numAttrs = 5;
	refused(REFUSED, SIZE_MAX);
	each(4);
	succeeds();
}

void batch_direction(void)
{
	if (!has())
		return;
	each(3);
	succeeds();
	each(3);
	for (size_t i = 0; i < 3; i++)
		turn(i);
	OK(call());
	OK(synchronise());
	CHECK(holds(scene.pin[1], SIZE, NEW) && holds_from(scene.pin[1], 2 * PITCH, SIZE, NEW, 2 * PITCH));
	for (size_t i = 1; i < 3; i++) { /* one that goes the other way */
		each(3);
		turn(i);
		refused(REFUSED, i);
		each(3);
		for (size_t k = 0; k < i; k++)
			turn(k);
		refused(REFUSED, i);
	}
	each(1); /* within a device, within the host */
	srcs[0] = scene.dev[1], attrs[0].srcLoc.type = DEVICE;
	refused(REFUSED, 0);
	each(1);
	dsts[0] = scene.pin[1], attrs[0].dstLoc.type = HOST;
	refused(REFUSED, 0);
}
