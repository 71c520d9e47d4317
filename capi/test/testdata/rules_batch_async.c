/* Rules of aclrtMemcpyBatchAsync and aclrtMemcpyBatchAsyncV2. */
#include "proof.h"

void rules_batch_async(const char *machine);

enum { SEGMENTS = 3, SIZE = 64, UNTOUCHED = 777 };
#define NO_SEGMENT SIZE_MAX

/* The arguments of the next call, and the arrays they point into. */
static struct {
	void **dsts;
	size_t *destMaxs;
	void **srcs;
	size_t *sizes;
	size_t numBatches;
	aclrtMemcpyBatchAttr *attrs;
	size_t *indexes;
	size_t numAttrs;
	size_t *failIndex;
	aclrtStream stream;
} a;
static void *dsts[SEGMENTS], *srcs[SEGMENTS];
static size_t destMaxs[SEGMENTS], sizes[SEGMENTS], indexes[SEGMENTS + 1], failIndex;
static aclrtMemcpyBatchAttr attrs[SEGMENTS + 1];

/* Three segments of 64 bytes, pinned to device, with an attribute each. */
static void good(void)
{
	a.dsts = dsts, a.destMaxs = destMaxs, a.srcs = srcs, a.sizes = sizes, a.attrs = attrs, a.indexes = indexes;
	a.numBatches = a.numAttrs = SEGMENTS;
	a.failIndex = &failIndex;
	a.stream = scene.stream;
	failIndex = UNTOUCHED;
	memset(attrs, 0, sizeof attrs);
	for (size_t i = 0; i < SEGMENTS; i++) {
		fill(scene.dev[i], OLD);
		fill(scene.pin[i], NEW);
		fill(scene.page[i], NEW);
		dsts[i] = scene.dev[i], srcs[i] = scene.pin[i];
		destMaxs[i] = sizes[i] = SIZE;
		indexes[i] = i;
		attrs[i].dstLoc.type = ACL_MEM_LOCATION_TYPE_DEVICE;
		attrs[i].srcLoc.type = ACL_MEM_LOCATION_TYPE_HOST;
	}
}

static void good_pageable(void)
{
	good();
	for (size_t i = 0; i < SEGMENTS; i++)
		srcs[i] = scene.page[i];
}

static int call(void)
{
	return aclrtMemcpyBatchAsync(a.dsts, a.destMaxs, a.srcs, a.sizes, a.numBatches, a.attrs, a.indexes, a.numAttrs,
		a.failIndex, a.stream);
}

static int callV2(void)
{
	return aclrtMemcpyBatchAsyncV2(a.dsts, a.destMaxs, a.srcs, a.sizes, a.numBatches, a.attrs, a.indexes, a.numAttrs, a.stream);
}

static void spoil(int rule)
{
	switch (rule) {
	case 1: a.failIndex = NULL; break;
	case 2: a.sizes = NULL; break;
	case 3: a.numBatches = 0; break;
	case 4: memset(sizes, 0, sizeof sizes); break;
	case 5: a.dsts = NULL; break;
	case 6: a.destMaxs = NULL; break;
	case 7: a.srcs = NULL; break;
	case 9: a.attrs = NULL; break;
	case 10: a.indexes = NULL; break;
	case 11: destMaxs[2] = sizes[2] - 1; break;
	case 12: attrs[1].rsv[15] = 1, a.numAttrs = a.numAttrs < 2 ? 2 : a.numAttrs; break;
	case 14: a.stream = GARBAGE; break;
	case 15: a.numAttrs = 0; break;
	case 16: a.numAttrs = a.numBatches + 1; break;
	case 17: indexes[0] = 1; break;
	case 18: indexes[1] = indexes[0]; break;
	case 19: indexes[2] = a.numBatches; break;
	case 21: proof.stranger = true; break;
	case 23: sizes[1] = 0; break;
	case 24: srcs[1] = NULL; break;
	case 25: dsts[1] = NULL; break;
	case 26: attrs[1].dstLoc.id = 1; break;
	case 27: attrs[1].srcLoc.type = ACL_MEM_LOCATION_TYPE_DEVICE; break;
	case 28: dsts[1] = scene.pin[3], attrs[1].dstLoc.type = ACL_MEM_LOCATION_TYPE_HOST; break;
	case 32: a.stream = scene.foreign; break;
	}
}

static void spoilV2(int rule) { spoil(rule + 1); }

static const struct family f = {"aclrtMemcpyBatchAsync", 32, good, spoil, call};
static const struct family v2 = {"aclrtMemcpyBatchAsyncV2", 31, good, spoilV2, callV2};

static bool arrived(size_t i) { return holds(scene.dev[i], SIZE, NEW) && holds_from(scene.dev[i], SIZE, SIZE, OLD, SIZE); }
static bool is_old(size_t i) { return holds(scene.dev[i], 2 * SIZE, OLD); }

/* The call is refused, says where, and has queued what lies below that segment. */
static void refused(const struct family *f, size_t index)
{
	expect(f);
	CHECK(a.failIndex == NULL || f == &v2 || failIndex == index);
	OK(aclrtSynchronizeStream(scene.stream));
	for (size_t i = 0; i < SEGMENTS; i++)
		CHECK(index < SEGMENTS && i < index ? arrived(i) : is_old(i));
}

/* What failIndex is after a rule has refused the call. */
static size_t index_after(int rule)
{
	return rule >= 23 && rule <= 28 ? 1 : NO_SEGMENT;
}

/* Rule k alone, and with all later ones; the numbers are those of aclrtMemcpyBatchAsync. */
static void batch_breaks(const struct family *f, int rule)
{
	int shift = f == &v2 ? 1 : 0;
	good();
	f->spoil(rule - shift);
	refused(f, index_after(rule));
	good();
	for (int i = f->last; i >= rule - shift; i--)
		f->spoil(i);
	if (rule > 21)
		a.stream = scene.stream; /* the other context would decide before the second segment */
	refused(f, index_after(rule));
}

/* More ways to break the rules about segments. */
static void segments(const struct family *f, int rule)
{
	batch_breaks(f, rule);
	good();
	switch (rule) {
	case 23:
		return;
	case 24: srcs[2] = NULL; break;
	case 25: dsts[2] = NULL; break;
	case 26: dsts[2] = freed_device(); break;
	case 27: srcs[2] = freed_pinned(); break;
	case 28: srcs[2] = scene.dev[3], attrs[2].srcLoc.type = ACL_MEM_LOCATION_TYPE_DEVICE; break;
	}
	refused(f, 2);
	if (rule == 28) { /* the other way than segments 0 and 1 */
		good();
		dsts[2] = scene.pin[3], attrs[2].dstLoc.type = ACL_MEM_LOCATION_TYPE_HOST;
		srcs[2] = scene.dev[3], attrs[2].srcLoc.type = ACL_MEM_LOCATION_TYPE_DEVICE;
		refused(f, 2);
	}
}

/* Rules about streams and what is on them. */
static void streams(const struct family *f, int rule)
{
	struct abort abort;
	switch (rule) {
	case 29: /* pageable segments wait for the stream, and report what failed on it */
		if (!proof.known)
			passed_on(ACL_ERROR_RT_SYS_DMA);
		good_pageable();
		fail_on(a.stream);
		refused(f, NO_SEGMENT);
		OK(f->call());
		CHECK(arrived(0) && arrived(1) && arrived(2));
		break;
	case 30:
		good_pageable();
		abort_begin(&abort);
		expect(f);
		abort_end(&abort);
		CHECK(f == &v2 || failIndex == NO_SEGMENT);
		break;
	case 32: /* pageable segments are copied, and the first pinned one ends it */
		good_pageable();
		srcs[2] = scene.pin[2];
		a.stream = scene.foreign;
		expect(f);
		CHECK((f == &v2 || failIndex == NO_SEGMENT) && arrived(0) && arrived(1) && is_old(2));
		good();
		a.stream = scene.foreign;
		attrs[1].dstLoc.id = 1; /* a later segment does not matter */
		refused(f, NO_SEGMENT);
		break;
	case 33:
		if (!proof.known)
			passed_on(ACL_ERROR_RT_PARAM_INVALID);
		good();
		sizes[1] = destMaxs[1] = 1 << 20; /* past the end of the allocation */
		expect(f);
		CHECK(f == &v2 || failIndex == NO_SEGMENT);
		OK(aclrtSynchronizeStream(scene.stream));
		CHECK(is_old(1) && is_old(2));
		good();
		abort_begin(&abort);
		proof.code = ACL_ERROR_RT_DEVICE_TASK_ABORT; /* the queue takes nothing now */
		expect(f);
		abort_end(&abort);
		CHECK(f == &v2 || failIndex == NO_SEGMENT);
		break;
	}
}

/* The rules from the product on, which both calls share. */
static void shared(const struct family *f, int rule)
{
	if (rule >= 29)
		streams(f, rule);
	else if (rule >= 23)
		segments(f, rule);
	else
		batch_breaks(f, rule);
	if (rule == 14) {
		good();
		a.stream = scene.gone;
		refused(f, NO_SEGMENT);
	}
	if (rule == 17) { /* also when it is the only one */
		good();
		a.numAttrs = 1;
		indexes[0] = 1;
		refused(f, NO_SEGMENT);
	}
}

static const int sharedRules[] = {14, 15, 16, 17, 18, 19, 21, 23, 24, 25, 26, 27, 28, 29, 30, 32, 33};

/* Both calls copy what they should, on the default stream too. */
static void works(void)
{
	good();
	OK(call());
	OK(aclrtSynchronizeStream(a.stream));
	CHECK(failIndex == NO_SEGMENT && arrived(0) && arrived(1) && arrived(2));
	good();
	a.numAttrs = 1;
	a.stream = NULL;
	OK(callV2());
	OK(aclrtSynchronizeStream(NULL));
	CHECK(failIndex == UNTOUCHED && arrived(0) && arrived(1) && arrived(2));
}

/* The 950 compares the context of the stream before the first segment, and looks at all segments before it copies one. */
static void on_950(void)
{
	RULE("aclrtMemcpyBatchAsync", 32) {
		good_pageable();
		sizes[0] = 0;
		a.stream = scene.foreign;
		refused(&f, NO_SEGMENT);
	}
	RULE("aclrtMemcpyBatchAsync", 23) {
		good();
		sizes[2] = 0;
		expect(&f);
		OK(aclrtSynchronizeStream(scene.stream));
		CHECK(failIndex == 2 && is_old(0) && is_old(1));
	}
}

void rules_batch_async(const char *machine)
{
	if (strcmp(machine, "950") == 0) {
		works();
		on_950();
	}
	if (strcmp(machine, "310P") == 0) {
		RULE("aclrtMemcpyBatchAsync", 13)
			batch_breaks(&f, 13); /* no breaker of its own: the product is it */
		RULE("aclrtMemcpyBatchAsyncV2", 12) {
			like("aclrtMemcpyBatchAsync", 13);
			batch_breaks(&v2, 13);
		}
	}
	if (strcmp(machine, "A2") != 0)
		return;
	works();
	for (int rule = 1; rule <= 12; rule++)
		if (rule != 8)
			RULE("aclrtMemcpyBatchAsync", rule)
				batch_breaks(&f, rule);
	for (size_t i = 0; i < sizeof sharedRules / sizeof sharedRules[0]; i++)
		RULE("aclrtMemcpyBatchAsync", sharedRules[i])
			shared(&f, sharedRules[i]);
	for (int rule = 2; rule <= 12; rule++)
		if (rule != 8)
			RULE("aclrtMemcpyBatchAsyncV2", rule - 1)
				batch_breaks(&v2, rule);
	RULE("aclrtMemcpyBatchAsyncV2", 12)
		for (size_t i = 0; i < sizeof sharedRules / sizeof sharedRules[0]; i++) {
			like("aclrtMemcpyBatchAsync", sharedRules[i]);
			shared(&v2, sharedRules[i]);
		}
	works();
}
