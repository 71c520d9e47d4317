/* Rules of aclrtMemcpyBatch and aclrtMemcpyBatchV2. */
#include "proof.h"

void rules_batch(const char *machine);

enum { SEGMENTS = 3, MANY = 4098, SIZE = 64, UNTOUCHED = 777 }; /* MANY: more than a batch may have */
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
} a;
static void *dsts[MANY], *srcs[MANY];
static size_t destMaxs[MANY], sizes[MANY], indexes[MANY], failIndex;
static aclrtMemcpyBatchAttr attrs[MANY];

/* Three segments of 64 bytes, pinned to device, with an attribute each. */
static void good(void)
{
	a.dsts = dsts, a.destMaxs = destMaxs, a.srcs = srcs, a.sizes = sizes, a.attrs = attrs, a.indexes = indexes;
	a.numBatches = a.numAttrs = SEGMENTS;
	a.failIndex = &failIndex;
	failIndex = UNTOUCHED;
	memset(attrs, 0, sizeof attrs);
	for (size_t i = 0; i < SEGMENTS; i++) {
		fill(scene.dev[i], OLD);
		fill(scene.pin[i], NEW);
		dsts[i] = scene.dev[i], srcs[i] = scene.pin[i];
		destMaxs[i] = sizes[i] = SIZE;
		indexes[i] = i;
		attrs[i].dstLoc.type = ACL_MEM_LOCATION_TYPE_DEVICE;
		attrs[i].srcLoc.type = ACL_MEM_LOCATION_TYPE_HOST;
	}
}

static int call(void)
{
	return aclrtMemcpyBatch(a.dsts, a.destMaxs, a.srcs, a.sizes, a.numBatches, a.attrs, a.indexes, a.numAttrs, a.failIndex);
}

static int callV2(void)
{
	return aclrtMemcpyBatchV2(a.dsts, a.destMaxs, a.srcs, a.sizes, a.numBatches, a.attrs, a.indexes, a.numAttrs);
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
	case 14: a.numAttrs = 0; break;
	case 15: a.numAttrs = a.numBatches + 1; break;
	case 16: a.numBatches = MANY - 1; break;
	case 17: indexes[0] = 1; break;
	case 18: indexes[1] = indexes[0]; break;
	case 19: indexes[2] = a.numBatches; break;
	case 20: dsts[1] = freed_device(); break;
	case 21: attrs[1].dstLoc.id = 1; break;
	case 22: srcs[1] = freed_pinned(); break;
	case 23: attrs[1].srcLoc.type = ACL_MEM_LOCATION_TYPE_DEVICE; break;
	case 24: dsts[1] = scene.pin[3], attrs[1].dstLoc.type = ACL_MEM_LOCATION_TYPE_HOST; break;
	}
}

/* V2 has no failIndex, so its rules have other numbers than the first call's. */
static void spoilV2(int rule) { spoil(rule + 1); }

static const struct family f = {"aclrtMemcpyBatch", 24, good, spoil, call};
static const struct family v2 = {"aclrtMemcpyBatchV2", 23, good, spoilV2, callV2};

static bool arrived(size_t i) { return holds(scene.dev[i], SIZE, NEW) && holds_from(scene.dev[i], SIZE, SIZE, OLD, SIZE); }
static bool is_old(size_t i) { return holds(scene.dev[i], 2 * SIZE, OLD); }

/* What failIndex is after a rule has refused the call. */
static size_t index_after(int rule)
{
	return rule >= 20 && rule <= 24 ? 1 : NO_SEGMENT;
}

/* The call is refused, says where, and has copied nothing. */
static void refused(const struct family *f, int rule)
{
	expect(f);
	CHECK(a.failIndex == NULL || f == &v2 || failIndex == index_after(rule));
	for (size_t i = 0; i < SEGMENTS; i++)
		CHECK(is_old(i));
}

/* Rule k alone, and with all later ones; the numbers are those of aclrtMemcpyBatch. */
static void batch_breaks(const struct family *f, int rule)
{
	int shift = f == &v2 ? 1 : 0;
	good();
	f->spoil(rule - shift);
	refused(f, rule);
	good();
	for (int i = f->last; i >= rule - shift; i--)
		f->spoil(i);
	refused(f, rule);
}

/* The first attribute cannot start late, also when it is the only one. */
static void first_attribute(const struct family *f)
{
	good();
	a.numAttrs = 1;
	indexes[0] = 1;
	refused(f, 17);
}

/* Addresses the driver finds out about when it copies. */
static void driver_refuses(const struct family *f)
{
	good();
	sizes[2] = destMaxs[2] = 1 << 20;
	refused(f, 26);
	good(); /* pageable memory that is not there, found before anything is written */
	for (size_t i = 0; i < SEGMENTS; i++)
		srcs[i] = scene.page[i];
	srcs[2] = scene.hole + sysconf(_SC_PAGESIZE);
	refused(f, 26);
}

/* The rules from the product on, which both calls share. */
static void shared(const struct family *f, int rule)
{
	if (!proof.known)
		passed_on(ACL_ERROR_RT_PARAM_INVALID);
	if (rule == 17)
		first_attribute(f);
	if (rule == 26)
		driver_refuses(f);
	else
		batch_breaks(f, rule);
	if (rule == 20 || rule == 22) { /* no address at all */
		good();
		*(rule == 20 ? &dsts[1] : &srcs[1]) = NULL;
		refused(f, rule);
	}
	if (rule == 24) {
		good();
		srcs[1] = scene.dev[3], attrs[1].srcLoc.type = ACL_MEM_LOCATION_TYPE_DEVICE;
		refused(f, rule);
		good(); /* the other way than segment 0 */
		dsts[1] = scene.pin[3], attrs[1].dstLoc.type = ACL_MEM_LOCATION_TYPE_HOST;
		srcs[1] = scene.dev[3], attrs[1].srcLoc.type = ACL_MEM_LOCATION_TYPE_DEVICE;
		refused(f, rule);
	}
}

static const int sharedRules[] = {14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 26};

/* Both calls copy what they should, so that the refusals are not for another reason. */
static void works(void)
{
	good();
	OK(call());
	CHECK(failIndex == NO_SEGMENT && arrived(0) && arrived(1) && arrived(2));
	good();
	a.numAttrs = 1;
	OK(callV2());
	CHECK(failIndex == UNTOUCHED && arrived(0) && arrived(1) && arrived(2));
}

void rules_batch(const char *machine)
{
	if (strcmp(machine, "310P") == 0) {
		RULE("aclrtMemcpyBatch", 13) {
			batch_breaks(&f, 13); /* no breaker of its own: the product is it */
		}
		RULE("aclrtMemcpyBatchV2", 12) {
			like("aclrtMemcpyBatch", 13);
			batch_breaks(&v2, 13);
		}
	}
	if (strcmp(machine, "A2") != 0)
		return;
	works();
	for (int rule = 1; rule <= 12; rule++)
		if (rule != 8)
			RULE("aclrtMemcpyBatch", rule)
				batch_breaks(&f, rule);
	for (size_t i = 0; i < sizeof sharedRules / sizeof sharedRules[0]; i++)
		RULE("aclrtMemcpyBatch", sharedRules[i])
			shared(&f, sharedRules[i]);
	for (int rule = 2; rule <= 12; rule++)
		if (rule != 8)
			RULE("aclrtMemcpyBatchV2", rule - 1)
				batch_breaks(&v2, rule);
	RULE("aclrtMemcpyBatchV2", 12)
		for (size_t i = 0; i < sizeof sharedRules / sizeof sharedRules[0]; i++) {
			like("aclrtMemcpyBatch", sharedRules[i]);
			shared(&v2, sharedRules[i]);
		}
	works();
}
